"""``penstock explain``: shows how a query is compiled, and the parts of one that is several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Annotated

import pyarrow as pa
import typer

from penstock.host.device.base import PAIRS, Device
from penstock.host.device.registry import device_names, open_device
from penstock.host.devices.narrow.kernel import NARROW_WIDTHS
from penstock.host.execute.units import UnitSample
from penstock.host.join.filtering import with_filter
from penstock.host.join.lookup.lookup_join import kept_row_bytes, row_bytes
from penstock.host.join.lookup.reach import Reach
from penstock.host.join.lookup.relation_source import RelationTable
from penstock.host.join.table.directions import Direction
from penstock.host.join.table.nearest_join import NearestJoin
from penstock.host.join.table.table_join import TableJoin
from penstock.host.keys.encoders import floats_of, width_for
from penstock.host.keys.layouts import BandLayout
from penstock.host.keys.prepare import MOST_SEARCHED, layout
from penstock.host.lookup.memory import kept_keys, kept_text, split_of
from penstock.host.lookup.zipf import top_share
from penstock.host.prune.chooser import expectation, key_texts
from penstock.host.prune.costed import Costed
from penstock.host.prune.sizes import DEFAULT_PRUNING
from penstock.host.windows.run import still
from penstock.host.workers.here import grouped_table

from ..api.classify import Table, columns_of
from ..api.table_query import How, TableQuery
from ..around.parts import Part, tree_lines
from ..errors import BeyondError, DeviceError, PenstockError, installing
from ..plan.band import BandForm
from ..plan.group_query import Grouped, GroupQuery, lookup_of
from ..plan.lookup import LookupPlan
from ..plan.nearest import nearest_facts
from ..plan.query import JoinQuery, RowsWindow, other
from ..plan.shown import (
    Fact,
    form_text,
    group_facts,
    key_facts,
    lookup_facts,
    query_facts,
    search_facts,
)
from ..program import BandProgram, GeneralProgram, Mode, Program, WindowProgram
from ..query.ansi import beyond_spark
from ..query.options import QueryOptions
from ..uses import EXPLAIN, Entrance
from ..words import count, many
from . import inputs
from .options import Written, application
from .terminal import facts, heading, line, say

Analyze = Annotated[
    bool,
    typer.Option("--analyze", help="Run joins, and show what they did beside what was expected."),
]


@application
def app(
    request: inputs.Asked,
    lookup: inputs.LookupArguments,
    written: Written,
    no_band: inputs.NoBand = False,
    analyze: Analyze = False,
) -> None:
    """Show windows, widths, prepared keys, band tests or pipeline stages, and devices."""
    query = request.over(lookup, Entrance(EXPLAIN, frozenset(written)))
    parts: list[Part] = []

    def explain(part: TableQuery) -> pa.Table | None:
        if part.relation is not None:
            _explain_lookup(part, *part.relation, lookup.memory_bytes)
        elif isinstance(whole := part.whole, GroupQuery):
            _explain_groups(whole, part.needed()[whole.source.table])
        elif whole.nearest is not None:
            join = NearestJoin(whole, part.needed())
            _show_query(whole, {}, join.schema, *nearest_facts(join.plan))
        else:
            return _explain_join(whole, part.needed(), band=not no_band, analyze=analyze)
        return None

    def join(text: str, tables: Mapping[str, Table], options: QueryOptions) -> pa.Table:
        part = TableQuery.classify(text, tables, options)
        rows = explain(part)
        return part.rows(How()) if rows is None else rows

    def show(
        part: Part, reads: Mapping[str, pa.Table | RelationTable], calls: Mapping[str, str]
    ) -> None:
        parts.append(part)
        _show_part(part, reads, calls)

    if not isinstance(query.query, BeyondError):
        explain(query)
        return
    # Which rows a part reads is known once those before it have run, so they run.
    query.run_parts(join, show)
    heading("parts")
    for text in tree_lines(parts):
        say(text)


def _show_part(
    part: Part, reads: Mapping[str, pa.Table | RelationTable], calls: Mapping[str, str]
) -> None:
    """Print which engine runs a part of a query, over which tables."""
    heading(part.name)
    line("engine", part.engine + (f": {part.why}" if part.why else ""))
    for name, table in reads.items():
        is_stored = isinstance(table, RelationTable)
        line("looks up" if is_stored else "reads", f"{name}, {_size(table)}")
    line("text", part.text)
    for name, expression in calls.items():
        line(name, expression)


def _size(table: pa.Table | RelationTable) -> str:
    if isinstance(table, RelationTable):
        with closing(table.open()) as stored:
            version = stored.version(table.version)
            return f"version {version.number}, {many(version.rows, 'row')}"
    return many(table.num_rows, "row")


#: Exponents of Zipf distributions for which the share of keys in memory is shown.
_EXPONENTS = (0.0, 0.8, 1.0, 1.2)


def _explain_lookup(
    table_query: TableQuery, name: str, relation: RelationTable, memory_bytes: int | None
) -> None:
    """Print layout, path, shares of memory and expected hits of a join with a relation.

    Raises
    ------
    QueryError
        A key column is compared with a value of another type.
    """
    query = table_query.whole
    with closing(relation.open()) as stored:
        plan = LookupPlan(lookup_of(query), name, stored.found_by)
        version = stored.version(relation.version)
        heading("query")
        by_key = plan.sought_keys is not None
        bounds = () if by_key else sorted(Reach(plan, version.index).bounded)
        pruned = f"pruned by {', '.join(bounds)}" if bounds else "all are read"
        facts(lookup_facts(plan, pruned))
        if isinstance(query, GroupQuery):
            facts(group_facts(query, plan.query.names))
        heading("relation")
        order = ", ".join(stored.cluster or stored.key)
        how = "clustered by" if stored.cluster else "by the hash of"
        size = version.bytes / 1e6
        line("version", f"{version.number}, {many(version.rows, 'row')}")
        line("pages", f"{count(len(version.index))}, {size:.1f} MB, {how} {order}")
        options = relation.options(memory_bytes, ordered=False, pruning=None)
        width = row_bytes(columns_of(table_query.tables[plan.outer.table]))
        algorithm = options.algorithm if by_key else None
        inner = 0 if by_key else kept_row_bytes(plan, stored)
        split = split_of(version, options.memory_bytes, width, algorithm, kept_row_bytes=inner)
        if by_key:
            line("algorithm", str(options.algorithm))
        parts = (f"{part} {size / 1e6:.1f} MB" for part, size in vars(split).items() if size)
        line("memory", ", ".join(parts))
        if not by_key:
            line("kept", kept_text(version, split, inner))
        elif split.cache:
            kept = kept_keys(version, split.cache)
            shares = "   ".join(
                f"{top_share(kept, version.rows, s):.0%} at exponent {s:g}" for s in _EXPONENTS
            )
            line("hits", f"{shares}, by the Zipf exponent of the stream's keys")


def _show_query(query: Grouped, counts: Mapping[str, str], schema: pa.Schema, *more: Fact) -> None:
    """Print a query, with texts about the rows of each side, and its output."""
    heading("query")
    notes = (("arithmetic", note) for note in beyond_spark(query))
    output = "output", ", ".join(f"{field.name}: {field.type}" for field in schema)
    facts([*query_facts(query, counts), *more, *notes, output])


def _explain_groups(query: GroupQuery, table: pa.Table) -> None:
    """Print how one table is grouped."""
    counts = {query.source.side: f", {many(table.num_rows, 'row')}"}
    _show_query(query, counts, grouped_table(query, table).schema)
    heading("devices")
    line("none", "this process folds the rows as they come")


def _explain_join(
    query: JoinQuery, tables: Mapping[str, pa.Table], *, band: bool, analyze: bool
) -> pa.Table | None:
    """Print how a join of tables is run, and which devices can; to analyze it, run it."""
    with open_device("cpu") as device:
        join = TableJoin(query, tables, device, band=band)
        counts = {
            side: f", {many(base.num_rows, 'row')}, {count(len(join.tables.sides[side]))} kept"
            for side, base in join.tables.base.items()
        }
        pairs = "pairs", f"{count(join.pairs_in_window)} in the window"
        _show_query(query, counts, join.schema, pairs)
        programs = [
            (_explain_direction(join, part, device), frozenset(part.evaluation.modes))
            for part in join.directions
        ]
    heading("devices")
    _show_devices(lambda device: _verdict_of(join, programs, device))
    _show_operator(query, [program for program, _ in programs])
    if not analyze:
        return None
    with open_device("cpu") as device:
        join = TableJoin(query, tables, device, band=band)
        rows = pa.Table.from_batches(join, join.schema)
    _show_work(join)
    return rows


def _explain_direction(join: TableJoin, direction: Direction, device: Device) -> Program:
    """Print what devices evaluate for tuples of one side; return the program."""
    part, names, sides = direction.evaluation, join.query.names, join.tables.sides
    form = part.form
    heading(f"{names[other(form.window)]} probes the window of {names[form.window]}")
    if part.fold is not None:
        line("aggregates", ", ".join(join.plan.folds.texts_of(part.fold)))
    if part.modes != (Mode.PAIRS,):
        line("modes", ", ".join(mode.value for mode in part.modes))
    prepared, values = inputs.keys_of(sides, form)
    laid_out = layout(
        form, prepared, values, device.key_widths, floats=floats_of(searches=device.searches)
    )
    program, text = laid_out.program, form_text(form, names)
    if isinstance(program, BandProgram):
        text += f", codes of {program.key_bits} bits"
    line("form", text)
    facts(key_facts(form, names, program, (prepared, values)))
    window, stream = sides[form.window], sides[direction.side].pick(direction.rows)
    if isinstance(laid_out, BandLayout):
        run = still(window.time, prepared)
        _show_units(
            laid_out,
            part.modes,
            lambda: UnitSample.take(laid_out, run, stream.columns, direction.start, direction.end),
        )
    elif isinstance(program, GeneralProgram):
        _show_stages(program, frozenset(part.modes))
    facts(search_facts(part.search, names, MOST_SEARCHED))
    costed = expectation(part, window, stream, direction.start, direction.end, device)
    costed.keys = lambda: key_texts(form, names)
    _show_costed(costed, names[direction.side], names[form.window])
    return program


def _show_costed(costed: Costed, tuples: str, rows: str) -> None:
    """Print orders that were costed, and which one is chosen."""
    lines = costed.lines()
    if not lines:
        why = "no key rules out pairs"
        if costed.pairs < DEFAULT_PRUNING.least_pairs:
            why = f"no order is looked for below {count(DEFAULT_PRUNING.least_pairs)}"
        line("orders", f"all {count(costed.pairs)} pairs are tested: {why}")
        return
    line("orders", f"rows of {rows} tested for each of {tuples}; time to search; to sort {rows}")
    facts((f"  {name}", text) for name, text in lines)


def _show_work(join: TableJoin) -> None:
    """Print what a join did, beside what was expected of it."""
    heading("what happened")
    stats = join.stats
    line("rows", f"{count(stats.rows)} in {stats.seconds:.3g} s, {stats.busy_s:.3g} s in tasks")
    tested, window = stats.pairs_evaluated, stats.pairs_in_window
    share = f"{100 * tested / window:.3g} %" if window else "none"
    line("pairs", f"{count(tested)} tested, {share} of {count(window)} in the window")
    for direction in join.directions:
        costed = join.costed.get(direction.form, Costed())
        for text in costed.outcome(tested if len(join.directions) == 1 else None):
            line("order", text)


def _show_units(
    laid_out: BandLayout, modes: Sequence[Mode], sampled: Callable[[], UnitSample]
) -> None:
    """Print the width of the hardware's units, and the matches of narrower ones."""
    exact = width_for(laid_out.encoders, (*NARROW_WIDTHS, laid_out.bits))
    narrower = [bits for bits in NARROW_WIDTHS if bits < exact]
    if narrower and modes != (Mode.PAIRS,):
        line("units", f"{exact} bits: narrower ones cannot fold, which needs exact codes")
        return
    sample = sampled() if narrower else None
    for bits in narrower:
        assert sample is not None
        expected = sample.estimate(bits)
        maps = ", ".join(
            f"t{test} by {'frame' if one.is_frame else 'rank'}"
            for test, one in enumerate(expected.maps)
        )
        share = f"{100 * expected.share:.2g} % of the pairs that they find are expected to be"
        verdict = "" if expected.is_good else ", too many"
        line("units", f"{bits} bits, {maps}: {share} false{verdict}")
        if expected.is_good:
            return
    line("units", f"{exact} bits, which hold every code")


def _show_stages(program: GeneralProgram, modes: frozenset[Mode]) -> None:
    """Print the stages of a build for this program, with the folded value if the modes need it."""
    try:
        from penstock.hw.join.config import JoinConfig
    except ModuleNotFoundError:
        line("pipeline", f"not shown: it needs amaranth; {installing('rtl')}")
        return
    try:
        plan = JoinConfig(program=program, modes=modes | PAIRS).schedule
    except DeviceError as error:
        line("pipeline", f"none: {error}")
        return
    line("pipeline", f"{plan.stages} stages in hardware")
    for stage in plan.lines():
        say(f"  {stage}")


def _verdict_of(
    join: TableJoin, programs: Sequence[tuple[Program, frozenset[Mode]]], device: Device
) -> str:
    """Whether a device runs a join, or looks for what the search keys admit, or why not."""
    reason = next(filter(None, (device.refuses(p, m) for p, m in programs)), None)
    plan = with_filter(join.plan, join.tables.schemas, [device])
    is_band = any(isinstance(one.form.form, BandForm) for one in plan.candidates())
    if reason is not None and plan.query.tests_pairs and is_band:
        return "finds the pairs that the search keys admit; the host tests these"
    return _verdict(reason)


def _verdict(reason: str | None) -> str:
    return "runs it" if reason is None else f"no: {reason}"


def _show_devices(verdict: Callable[[Device], str]) -> None:
    for name in device_names():
        try:
            with open_device(name) as device:
                line(name, verdict(device))
        except PenstockError as error:
            line(name, f"not here: {error}")


def _show_operator(query: JoinQuery, programs: Sequence[Program]) -> None:
    """Show which devices can run the window-join operator for the query, or why others cannot."""
    heading("window operator (--operator window)")
    rows = query.window
    if query.aggregation is not None or query.kind.is_existence or not isinstance(rows, RowsWindow):
        feature = "a time window" if query.is_windowed else "no window"
        feature = feature if query.aggregation is None else "aggregates"
        feature = f"a {query.kind.value} JOIN" if query.kind.is_existence else feature
        line("none", f"it gives the pairs of ROWS windows; this query has {feature}")
        return
    # The window over the right side comes first: it matches rows of the left side.
    a, b = programs
    program = WindowProgram(a, b, (rows.left, rows.right))
    _show_devices(lambda device: _verdict(device.refuses(program)))
