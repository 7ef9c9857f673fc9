"""What commands that join do with the rows: write them, or print the first ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa

from penstock.host.execute.trace import Trace
from penstock.host.rows.files import check_writable, open_writer

from ..errors import UsageError
from .options import group, option
from .terminal import count, results, table


@group
class OutputArguments:
    """The outputs of a join."""

    out: Path | None = option("Write .parquet, .csv or .arrow.", "--out", "-o")
    show: int = option("Rows to print where there is no --out.", default=20)
    stats: Path | None = option("Write counts as JSON.")
    trace: Path | None = option("Write what the device did when, for Perfetto or Chrome.")
    metrics_port: int | None = option(
        "Serve metrics to Prometheus and `penstock top` meanwhile; 0: any port."
    )

    def check(self) -> None:
        """Refuse what cannot be done, before anything is joined.

        Raises
        ------
        UsageError, FileError
        """
        if self.show < 0:
            raise UsageError(f"--show takes a number of rows, not {self.show}")
        for path in (self.stats, self.trace):
            if path is not None:
                check_writable(path)


def run(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, output: OutputArguments, trace: Trace
) -> pa.Table:
    """Run the join, and give the first rows if they are to be printed."""
    first: list[pa.RecordBatch] = []
    missing = 0 if output.out is not None else output.show
    with _writer(output.out, schema) as write:
        for batch in batches:
            began = monotonic()
            write(batch)
            trace.add("output", "write", began, monotonic())
            if missing:
                first.append(batch.slice(0, min(missing, batch.num_rows)))
                missing -= first[-1].num_rows
    return pa.Table.from_batches(first, schema)


@contextmanager
def _writer(out: Path | None, schema: pa.Schema) -> Iterator:
    if out is None:
        yield lambda batch: None
        return
    with open_writer(out, schema) as writer:
        yield writer.write_batch


def show(rows: pa.Table, total: int) -> None:
    """Print the first rows of an output, and how many more there are."""
    numbers = {
        place
        for place, field in enumerate(rows.schema)
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
    }
    shown = table(*rows.schema.names, right=numbers)
    for row in range(rows.num_rows):
        values = (_plain(column[row]) for column in rows.columns)
        shown.add_row(*("NULL" if value is None else str(value) for value in values))
    results.print(shown)
    if total > rows.num_rows:
        results.print(
            f"... {count(total - rows.num_rows)} more rows; write all with --out FILE",
            style="dim",
            highlight=False,
        )


def _plain(value: Any) -> Any:
    """The value of Arrow in Python; nanoseconds, for which Python has no class, as text."""
    kind = value.type
    if not value.is_valid:
        return None
    if pa.types.is_struct(kind):
        return {name: _plain(one) for name, one in value.items()}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return [_plain(one) for one in value]
    if getattr(kind, "unit", "") != "ns":
        return value.as_py()
    if pa.types.is_duration(kind):
        whole, rest = divmod(value.value, 10**9)
        return f"{whole}.{rest:09d} s"
    return str(value.cast(pa.string()))
