"""Output of ``penstock sql``: rows that are written, or the first ones printed; counts, metrics.

A summary of the work behind the rows is for people, and for ``--stats``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa
from rich.text import Text

from penstock.host.execute.stats import Stats
from penstock.host.execute.trace import Trace
from penstock.host.join.lookup.lookup_join import RelationJoin
from penstock.host.join.table.nearest_join import NearestJoin
from penstock.host.join.table.operator_join import OperatorJoin
from penstock.host.join.table.table_join import TableJoin
from penstock.host.rows.files import check_writable, open_writer, write_text
from penstock.host.workers.here import GroupedTable
from penstock.host.workers.table_groups import WorkerTable

from ..api.table_query import Answer, LookedUpTable, PartsTable
from ..errors import UsageError
from ..words import count, many, per_second
from .options import group, option
from .page_options import PageArguments
from .terminal import note, results, stacked, table, width_of


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
def serving(answer: Answer, port: int | None, page: PageArguments, trace: Trace) -> Iterator[None]:
    """Serve metrics of a join or of groups, and a page, if ports are given."""
    with ExitStack() as cleanup:
        if port is not None:
            assert not isinstance(answer, LookedUpTable | NearestJoin | PartsTable)
            from penstock.host.metrics.exporter import serve_metrics

            server = serve_metrics(answer.report, port)
            cleanup.callback(server.close)
            note(f"metrics: http://127.0.0.1:{server.port}/metrics; penstock top {server.port}")
        if (place := page.place()) is not None:
            assert not isinstance(answer, LookedUpTable | NearestJoin | PartsTable)
            from penstock.host.page.page import show_reports

            shown = show_reports(answer.report, *place, trace=trace)
            cleanup.callback(shown.close)
            note(page.line_of(shown))
        yield


def conclude(summary: Summary, first: pa.Table, output: OutputArguments, trace: Trace) -> None:
    """Print the first rows if no file has them, and a summary; write counts and trace."""
    if output.out is None:
        show(first, summary.rows)
    where = "" if output.out is None else f" -> {output.out}"
    note(f"{many(summary.rows, summary.noun)}{where}{summary.work}")
    if summary.cycles:
        note(summary.cycles)
    if output.stats is not None:
        write_text(output.stats, json.dumps(summary.counts, indent=2) + "\n")
    if output.trace is not None:
        trace.write(output.trace)


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
    lines = [
        [Text("NULL" if one is None else str(one)) for one in map(_plain, values)]
        for values in zip(*rows.columns, strict=True)
    ]
    shown = table(*rows.schema.names, rows=lines, right=numbers)
    if width_of(shown) > results.width:
        shown = stacked(rows.schema.names, lines)
    results.print(shown)
    if total > rows.num_rows:
        results.print(
            f"... {many(total - rows.num_rows, 'more row')}; write all with --out FILE",
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
        whole, nanos = divmod(value.value, 10**9)
        return f"{whole}.{nanos:09d} s"
    return str(value.cast(pa.string()))


@dataclass(frozen=True)
class Summary:
    """Work behind the rows of a query.

    Parameters
    ----------
    rows : int
    noun : str
        Word for one of the rows: "row" or "group".
    work : str
        The rest of the sentence that begins with the rows.
    cycles : str
        Another sentence, about cycles of a simulated device, if there is one.
    counts : mapping of str to number
    """

    rows: int
    noun: str
    work: str
    cycles: str = ""
    counts: Mapping[str, Any] = field(default_factory=dict)


def summary(answer: Answer, seconds: float) -> Summary:
    """Summarise rows that have been read, in so many seconds."""
    if isinstance(answer, TableJoin):
        return _of_join(answer.stats, is_operator=isinstance(answer, OperatorJoin))
    if isinstance(answer, NearestJoin):
        return Summary(answer.rows, "row", f" in {seconds:.3f} s, the nearest of each row")
    if isinstance(answer, LookedUpTable):
        return _of_lookup(answer.join, seconds)
    if isinstance(answer, PartsTable):
        return Summary(answer.table.num_rows, "row", f" in {seconds:.3f} s, run in parts")
    return _of_groups(answer, seconds)


def _of_join(stats: Stats, *, is_operator: bool) -> Summary:
    rate = stats.pairs_evaluated / stats.seconds if stats.seconds else 0.0
    share = stats.pairs_pruned / max(stats.pairs_pruned + stats.pairs_evaluated, 1)
    pruned = f" ({share:.0%} pruned)" if share >= 0.005 else ""
    work = (
        f"; {many(stats.pairs_in_window, 'pair')} in the window, "
        f"{count(stats.pairs_evaluated)} evaluated{pruned} in {stats.seconds:.3f} s on "
        f"{stats.device}{', window operator' if is_operator else ''} ({per_second(rate, 'pairs')})"
    )
    note = ""
    if "cycles" in stats.counters:
        name, noun = ("tuples", "tuples") if is_operator else ("window_flits", "window tuples")
        tuples, cycles = stats.counters.get(name, 0), stats.counters["cycles"]
        per_cycle = tuples / max(cycles, 1)
        note = f"{count(cycles)} cycles, {count(tuples)} {noun} ({per_cycle:.3g} per cycle)"
    counts = {"operator": "window" if is_operator else "range", **stats.as_dict()}
    return Summary(stats.rows, "row", work, note, counts)


def _of_groups(groups: GroupedTable | WorkerTable, seconds: float) -> Summary:
    """Summarise groups, or a join by workers."""
    rate = groups.rows_in / seconds if seconds else 0.0
    is_join = isinstance(groups, WorkerTable) and len(groups.arrived) > 1
    noun, none = ("row", "meeting nothing") if is_join else ("group", "in none")
    work = f" of {many(groups.rows_in, 'row')} in {seconds:.3f} s ({per_second(rate, 'rows')})"
    if groups.timeless:
        work += f"; {many(groups.timeless, 'row')} without an event time {none}"
    counts = {
        "rows": groups.rows_out,
        "rows_in": groups.rows_in,
        "timeless": groups.timeless,
        "filtered": groups.filtered,
        "seconds": seconds,
    }
    return Summary(groups.rows_out, noun, work, counts=counts)


def _of_lookup(join: RelationJoin, seconds: float) -> Summary:
    counts = join.counts
    rate = join.rows_in / seconds if seconds else 0.0
    kept = ""
    if counts.rows and counts.hits:
        kept = f", {counts.hits / counts.rows:.0%} of the keys found in memory"
    work = (
        f"; {count(join.rows_in)} of {join.plan.outer.alias} looked up in version "
        f"{join.version.number} of {join.relation.name} in {seconds:.3f} s "
        f"({per_second(rate, 'rows')}){kept}; {many(counts.pages, 'page')} read"
    )
    numbers = asdict(counts)
    numbers |= {"sought": counts.rows, "rows": join.stats.rows, "seconds": seconds}
    return Summary(join.stats.rows, "row", work, counts=numbers)
