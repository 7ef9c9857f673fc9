"""``penstock sql``: joins files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from time import monotonic

import pyarrow as pa
import typer

from penstock.host.device.base import Device
from penstock.host.device.operator import Operator
from penstock.host.execute.running import Running
from penstock.host.execute.stats import Stats
from penstock.host.execute.trace import Trace
from penstock.host.join.table.operators import table_join
from penstock.host.join.table.report import table_report
from penstock.host.join.table.table_join import TableJoin
from penstock.host.metrics import serve_metrics
from penstock.host.prune.sizes import pruning_sizes
from penstock.host.rows.files import check_writable, open_writer, write_text

from ..errors import UsageError
from . import inputs, values
from .options import group, grouped, option
from .terminal import count, meter, note, results, table


@group
class DeviceArguments:
    """The device that joins."""

    device: str = option("See `penstock devices`.", default="cpu")
    threads: int | None = option("Cores of the cpu device.")
    units: int | None = option("Join units of a simulated device.")
    pipelines: int | None = option("Pipelines of the rtl device, each with so many units.")
    key_bits: int | None = option("Widest codes of a simulated device's units, such as 16.")
    operator: Operator = option(
        "What the device does: range joins, or the window-join operator (ROWS windows).",
        default=Operator.RANGE,
    )
    banks: int | None = option("Banks of the rtl device's window-join operator.")
    rows_depth: int | None = option("Largest ROWS of the rtl device's window-join operator.")
    vcd: Path | None = option("Waveform of a simulated device.")
    address: inputs.Address = None
    token_file: inputs.TokenFile = None
    package: inputs.Package = None

    def open(self) -> Device:
        """Open the device."""
        given = asdict(self)
        del given["operator"]
        return inputs.open_named(given.pop("device"), **given)


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


@group
class HowArguments:
    """How the join is run."""

    disorder: inputs.Texts = option(
        "Most that rows may be out of order: 10, 5s, or a=10; else an error."
    )
    no_band: inputs.NoBand = False
    no_pruning: bool = option(
        "Evaluate every pair that the window admits.", "--no-pruning", default=False
    )
    ordered: bool = option(
        "Write rows by the arrival of their later row, then of their earlier one.",
        "--ordered",
        default=False,
    )
    progress: bool = option("Show a progress bar on a terminal.", default=True)


app = typer.Typer(add_completion=False)


@app.command()
@grouped
def command(
    asked: inputs.Asked, device: DeviceArguments, output: OutputArguments, how: HowArguments
) -> None:
    """Join two tables over a time or ROWS window, or aggregate what joins."""
    if output.show < 0:
        raise UsageError(f"--show takes a number of rows, not {output.show}")
    given = asked.compiled()
    for path in (output.stats, output.trace):
        if path is not None:
            check_writable(path)
    trace = Trace(output.trace is not None)
    with device.open() as opened, meter(how.progress) as shown:
        join = table_join(device.operator)(
            given.query,
            given.tables(),
            opened,
            band=not how.no_band,
            disorder=values.spans(how.disorder or (), "disorder"),
            pruning=pruning_sizes(not how.no_pruning),
            running=Running(ordered=how.ordered),
            trace=trace,
            on_progress=shown,
        )
        with _serving(join, output.metrics_port):
            first = _run(join, output, trace)
    if output.out is None:
        _print(first, join.stats.rows)
    _summarise(join.stats, device.operator, output.out)
    if output.stats is not None:
        counts = {"operator": device.operator.value, **join.stats.as_dict()}
        write_text(output.stats, json.dumps(counts, indent=2) + "\n")
    if output.trace is not None:
        trace.write(output.trace)


@contextmanager
def _serving(join: TableJoin, port: int | None) -> Iterator[None]:
    """Serve metrics of the join, if a port is given."""
    if port is None:
        yield
        return
    server = serve_metrics(partial(table_report, join), port)
    note(f"metrics: http://127.0.0.1:{server.port}/metrics; penstock top {server.port}")
    try:
        yield
    finally:
        server.close()


def _run(join: TableJoin, output: OutputArguments, trace: Trace) -> pa.Table:
    """Run the join, and give the first rows if they are to be printed."""
    first: list[pa.RecordBatch] = []
    missing = 0 if output.out is not None else output.show
    with _writer(output.out, join.schema) as write:
        for batch in join:
            began = monotonic()
            write(batch)
            trace.add("output", "write", began, monotonic())
            if missing:
                first.append(batch.slice(0, min(missing, batch.num_rows)))
                missing -= first[-1].num_rows
    return pa.Table.from_batches(first, join.schema)


@contextmanager
def _writer(out: Path | None, schema: pa.Schema) -> Iterator:
    if out is None:
        yield lambda batch: None
        return
    with open_writer(out, schema) as writer:
        yield writer.write_batch


def _print(rows: pa.Table, total: int) -> None:
    numbers = {
        place
        for place, field in enumerate(rows.schema)
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
    }
    shown = table(*rows.schema.names, right=numbers)
    for row in rows.to_pylist():
        shown.add_row(*("NULL" if value is None else str(value) for value in row.values()))
    results.print(shown)
    if total > rows.num_rows:
        results.print(
            f"... {count(total - rows.num_rows)} more rows; write all with --out FILE",
            style="dim",
            highlight=False,
        )


def _summarise(stats: Stats, operator: Operator, out: Path | None) -> None:
    rate = stats.pairs_evaluated / stats.seconds if stats.seconds else 0.0
    where = "" if out is None else f" -> {out}"
    share = stats.pairs_pruned / max(stats.pairs_pruned + stats.pairs_evaluated, 1)
    pruned = f" ({share:.0%} pruned)" if share >= 0.005 else ""
    how = "" if operator is Operator.RANGE else ", window operator"
    note(
        f"{count(stats.rows)} rows{where}; {count(stats.pairs_in_window)} pairs in the window, "
        f"{count(stats.pairs_evaluated)} evaluated{pruned} in {stats.seconds:.3f} s on "
        f"{stats.device}{how} ({rate / 1e9:.3g} G/s)"
    )
    if "cycles" not in stats.counters:
        return
    is_range = operator is Operator.RANGE
    name, what = ("window_flits", "window tuples") if is_range else ("tuples", "tuples")
    some, cycles = stats.counters.get(name, 0), stats.counters["cycles"]
    note(f"{count(cycles)} cycles, {count(some)} {what} ({some / max(cycles, 1):.3g} per cycle)")
