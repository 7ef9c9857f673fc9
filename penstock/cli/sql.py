"""``penstock sql``: joins files, or groups one."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from time import monotonic

from penstock.host.device.base import Device
from penstock.host.device.operator import Operator
from penstock.host.execute.running import Running
from penstock.host.execute.trace import Trace
from penstock.host.prune.sizes import pruning_sizes

from ..api.table_query import How, PartsTable, TableQuery
from ..plan.query import JoinQuery
from ..uses import COMMAND, Entrance, QueryKind, Way
from . import inputs, values
from .options import Written, application, group, option
from .page_options import PageArguments
from .row_output import OutputArguments, conclude, run, serving, summary
from .terminal import meter


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
        options = asdict(self)
        del options["operator"]
        return inputs.open_named(options.pop("device"), **options)


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
    workers: int | None = option(
        "Processes that join the tables, or group one, together.", min=1, max=4096
    )


@application
def app(
    request: inputs.Asked,
    lookup: inputs.LookupArguments,
    device: DeviceArguments,
    output: OutputArguments,
    page: PageArguments,
    how: HowArguments,
    written: Written,
) -> None:
    """Run a query over files: joins on any condition, groups of one table."""
    output.check()
    ways: dict[QueryKind | Way, bool] = {
        Way.WORKERS: how.workers is not None,
        Way.SAVED: output.out is not None,
        QueryKind.OPERATOR: device.operator is Operator.WINDOW,
    }
    entrance = Entrance(COMMAND, frozenset(written)).also(*(way for way in ways if ways[way]))
    began = monotonic()
    query = request.over(lookup, entrance)
    trace = Trace(output.trace is not None)
    with meter(how.progress) if _counts_pairs(query, how) else nullcontext() as shown:
        settings = How(
            device.device if how.workers else device.open,
            device.operator,
            values.spans(how.disorder or (), "disorder"),
            pruning_sizes(not how.no_pruning),
            Running(ordered=how.ordered),
            lookup.memory_bytes,
            how.workers,
            not how.no_band,
            trace,
            shown,
        )
        with query.open(settings) as answer:
            if not isinstance(answer, PartsTable):
                began = monotonic()
            with serving(answer, output.metrics_port, page, trace):
                first = run(answer, answer.schema, output, trace)
            seconds = monotonic() - began
    conclude(summary(answer, seconds), first, output, trace)


def _counts_pairs(query: TableQuery, how: HowArguments) -> bool:
    """Whether the query is a join of tables in this process, whose progress is known."""
    is_join = isinstance(query.query, JoinQuery) and query.query.nearest is None
    return is_join and query.relation is None and how.workers is None
