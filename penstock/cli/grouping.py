"""``penstock sql`` of groups of one file, or of what its rows look up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from penstock.host.execute.trace import Trace
from penstock.host.grouping import GroupedTable
from penstock.host.metrics import serve_metrics
from penstock.host.rows.files import write_text
from penstock.host.workers.table import WorkerTable

from .inputs import Inputs
from .output import OutputArguments, run, show
from .terminal import count, note


def write_shared(
    given: Inputs, output: OutputArguments, workers: int, ordered: bool, device: str
) -> None:
    """Write what workers make of the tables."""
    trace = Trace(output.trace is not None)
    shared = WorkerTable(
        given.query.text,
        given.tables(),
        given.options,
        workers,
        ordered=ordered,
        device=device,
        trace=trace,
    )
    write_groups(shared, output)


def write_groups(groups: GroupedTable | WorkerTable, output: OutputArguments) -> None:
    """Write the groups, or joined rows, or print the first; say what they were made of."""
    if isinstance(groups, GroupedTable):
        groups.trace = Trace(output.trace is not None)
    trace = groups.trace
    began = monotonic()
    with _serving(groups, output.metrics_port):
        first = run(groups, groups.schema, output, trace)
    seconds = monotonic() - began
    if output.out is None:
        show(first, groups.rows_out)
    _summarise(groups, seconds, output.out)
    if output.stats is not None:
        counts = {
            "rows": groups.rows_out,
            "rows_in": groups.rows_in,
            "timeless": groups.timeless,
            "filtered": groups.filtered,
            "seconds": seconds,
        }
        write_text(output.stats, json.dumps(counts, indent=2) + "\n")
    if output.trace is not None:
        trace.write(output.trace)


@contextmanager
def _serving(groups: GroupedTable | WorkerTable, port: int | None) -> Iterator[None]:
    """Serve metrics of the groups, if a port is given."""
    if port is None:
        yield
        return
    server = serve_metrics(groups.report, port)
    note(f"metrics: http://127.0.0.1:{server.port}/metrics; penstock top {server.port}")
    try:
        yield
    finally:
        server.close()


def _summarise(groups: GroupedTable | WorkerTable, seconds: float, out: Path | None) -> None:
    where = "" if out is None else f" -> {out}"
    rate = groups.rows_in / seconds if seconds else 0.0
    timeless = groups.timeless
    is_join = isinstance(groups, WorkerTable) and len(groups.arrived) > 1
    what, none = ("rows", "meet nothing") if is_join else ("groups", "are in none")
    note(
        f"{count(groups.rows_out)} {what}{where} of {count(groups.rows_in)} rows in {seconds:.3f} "
        f"s ({rate / 1e6:.3g} M/s)"
        + (f"; {count(timeless)} rows without an event time {none}" if timeless else "")
    )
