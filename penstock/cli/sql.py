"""``penstock sql``: joins files, or groups one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path

import typer

from penstock.host.device.base import Device
from penstock.host.device.operator import Operator
from penstock.host.execute.running import Running
from penstock.host.execute.stats import Stats
from penstock.host.execute.trace import Trace
from penstock.host.grouping import grouped_table
from penstock.host.join.table.operators import table_join
from penstock.host.join.table.report import table_report
from penstock.host.join.table.table_join import TableJoin
from penstock.host.metrics import serve_metrics
from penstock.host.prune.sizes import pruning_sizes
from penstock.host.rows.files import write_text

from ..errors import MistakenError, QueryError
from ..plan.group_query import GroupQuery
from ..uses import COMMAND, LOOKUPS, Entrance, Kind, UnusedError, Way
from . import inputs, values
from .around import run_in_parts
from .grouping import write_groups, write_shared
from .lookup import LookupArguments, join_with_relation
from .options import Written, group, grouped, option
from .output import OutputArguments, run, show
from .terminal import count, meter, note


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


app = typer.Typer(add_completion=False)


@app.command()
@grouped
def command(
    asked: inputs.Asked,
    looked_up: LookupArguments,
    device: DeviceArguments,
    output: OutputArguments,
    how: HowArguments,
    written: Written,
) -> None:
    """Join two tables over a time or ROWS window, aggregate what joins, or group one table."""
    output.check()
    asked, relations = looked_up.read_by(asked)
    memory = looked_up.memory_bytes
    ways: dict[Kind | Way, bool] = {
        Way.WORKERS: how.workers is not None,
        Way.SAVED: output.out is not None,
        Way.NODELESS: looked_up.nodes is None,
        Kind.OPERATOR: device.operator is Operator.WINDOW,
    }
    entrance = Entrance(COMMAND, frozenset(written)).also(*(way for way in ways if ways[way]))
    try:
        if relations:
            with device.open() as opened:
                running = Running(ordered=how.ordered, pruning=not how.no_pruning)
                join_with_relation(asked, entrance, relations, memory, opened, output, running)
            return
        given = asked.compiled(entrance)
    except MistakenError:
        raise
    except QueryError as why:
        lookups = () if relations else LOOKUPS
        try:
            entrance.also(Way.PARTS).refuse_unused({*Kind}.difference(lookups))
        except UnusedError as error:
            raise error.beside(why) from None
        with nullcontext(device.device) if how.workers else device.open() as opened:
            options = {
                "device": opened,
                "operator": device.operator.value,
                "disorder": values.spans(how.disorder or (), "disorder"),
                "pruning": not how.no_pruning,
                "running": Running(ordered=how.ordered),
                "workers": how.workers,
                "memory_bytes": memory,
            }
            for one in fields(device):  # all of which say what device= is
                if one.name in written and one.name != "operator":
                    written.setdefault("device", written[one.name])
            own = {name: value for name, value in options.items() if name in written}
            run_in_parts(asked, relations, output, own)
        return
    query = given.query
    if how.workers is not None:
        write_shared(given, output, how.workers, how.ordered, device.device)
        return
    if isinstance(query, GroupQuery):
        ((_, table),) = given.tables().items()
        write_groups(grouped_table(query, table), output)
        return
    trace = Trace(output.trace is not None)
    with device.open() as opened, meter(how.progress) as shown:
        join = table_join(device.operator)(
            query,
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
            first = run(join, join.schema, output, trace)
    if output.out is None:
        show(first, join.stats.rows)
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
