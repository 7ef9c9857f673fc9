"""``penstock sql`` of groups of one file, or of what its rows look up."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from penstock.host.execute.trace import Trace
from penstock.host.grouping import GroupedTable, grouped_table
from penstock.host.metrics import serve_metrics
from penstock.host.rows.files import write_text
from penstock.host.workers.table import WorkerTable

from ..errors import UsageError
from ..plan.group_query import GroupQuery
from .inputs import Inputs
from .output import OutputArguments, run, show
from .terminal import count, note


def group_file(
    given: Inputs,
    output: OutputArguments,
    refused: dict[str, object],
    workers: int | None,
    ordered: bool,
) -> None:
    """Group the one file of a query.

    Parameters
    ----------
    workers : int or None
        Processes that share the work; None for this one.
    ordered : bool
        Whether groups are put in order.
    refused : dict of str to value
        Options of joins, with what was given; falsy where nothing was.

    Raises
    ------
    UsageError
        An option is about joins.
    """
    query = given.query
    assert isinstance(query, GroupQuery)
    for option, value in refused.items():
        if value:
            raise UsageError(
                f"{option} is about joins, and the query is over one table, whose groups this "
                f"process folds itself; leave {option} out"
            )
    if workers is None:
        ((_, table),) = given.tables().items()
        write_groups(grouped_table(query, table), output)
    else:
        write_shared(given, output, workers, ordered)


def join_by_workers(
    given: Inputs,
    output: OutputArguments,
    refused: Mapping[str, object],
    workers: int,
    ordered: bool,
) -> None:
    """Join the files of a query on worker processes.

    Parameters
    ----------
    refused : mapping of str to value
        Options of devices and joins, with what was given; falsy where nothing was.

    Raises
    ------
    UsageError
        An option is for joins in one process, or the device takes options.
    """
    device = refused.get("--device") or "cpu"
    for option, value in refused.items():
        if value and option != "--device":
            raise UsageError(
                f"{option} is for joins in one process: each worker opens the device by its name; "
                f"leave {option} or --workers out"
            )
    write_shared(given, output, workers, ordered, str(device))


def write_shared(
    given: Inputs, output: OutputArguments, workers: int, ordered: bool, device: str = "cpu"
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
