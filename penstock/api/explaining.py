"""Explains a query over tables: how it is compiled, the parts of one that is several, findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock.host.device.base import Device
from penstock.host.device.registry import device_names, open_device
from penstock.host.devices.narrow.kernel import NARROW_WIDTHS
from penstock.host.execute.stats import Stats
from penstock.host.execute.units import UnitSample
from penstock.host.join.filtering import with_filter
from penstock.host.join.lookup.lookup_join import kept_row_bytes, row_bytes
from penstock.host.join.lookup.reach import Reach
from penstock.host.join.lookup.relation_source import RelationTable
from penstock.host.join.table.directions import Direction
from penstock.host.join.table.nearest_join import NearestJoin
from penstock.host.join.table.pair_findings import of_join
from penstock.host.join.table.table_join import TableJoin
from penstock.host.keys.encoders import floats_of, width_for
from penstock.host.keys.layouts import BandLayout
from penstock.host.keys.prepare import (
    MOST_SEARCHED,
    layout,
    program_keys,
    stream_values,
    window_keys,
)
from penstock.host.lookup.memory import kept_keys, kept_text, split_of
from penstock.host.lookup.zipf import top_share
from penstock.host.prune.chooser import expectation, key_texts
from penstock.host.prune.costed import Costed
from penstock.host.prune.sizes import DEFAULT_PRUNING
from penstock.host.rows.sides import SideRows
from penstock.host.windows.run import still
from penstock.host.workers.here import grouped_table

from .. import arguments
from ..around.parts import Part, tree_lines
from ..errors import BeyondError, PenstockError, memory_explained
from ..expr.vector import Vector
from ..plan.band import BandForm
from ..plan.forms import JoinForm
from ..plan.group_query import Grouped, GroupQuery, lookup_of
from ..plan.lookup import LookupPlan
from ..plan.nearest import nearest_facts
from ..plan.query import JoinQuery, RowsWindow, Side, other
from ..plan.shown import (
    Fact,
    form_text,
    group_facts,
    key_facts,
    lookup_facts,
    query_facts,
    search_facts,
    side_facts,
    window_text,
)
from ..program import BandProgram, GeneralProgram, Mode, Program, WindowProgram
from ..query.ansi import beyond_spark
from ..query.options import QueryOptions, Rows, Within
from ..user_functions import Udf
from ..uses import PLAN, Entrance
from ..words import many, percent
from .classify import Table, columns_of
from .explained import Explanation, Notes
from .received import TableLike, as_tables
from .table_query import How, TableQuery

#: Facts about the pipeline of a program, with the modes of its matches.
Stages = Callable[[GeneralProgram, frozenset[Mode]], Iterable[Fact]]


def explain(
    query: str,
    tables: Mapping[str, TableLike],
    *,
    analyze: bool = False,
    time: Mapping[str, str] | None = None,
    rows: Rows | None = None,
    within: Within | None = None,
    params: Mapping[str, Any] | None = None,
    scale: Mapping[str, int] | None = None,
    time_zone: str | None = None,
    ansi: bool = False,
    memory_bytes: int | None = None,
    functions: Mapping[str, Udf] | None = None,
) -> Explanation:
    """Explain how a query over tables is run: windows, keys, forms, orders, devices, findings.

    Parameters
    ----------
    query : str
    tables : mapping of name to table
    analyze : bool
        Whether to run joins of two tables, and say what they did beside what was expected.
    time, rows, within, params, scale, time_zone, ansi, memory_bytes, functions
        As for :func:`penstock.sql`.

    Returns
    -------
    Explanation
        ``str`` gives its text; a notebook shows it with a drawing; ``html()`` is a page;
        ``findings`` says what may be worth a change.

    Raises
    ------
    PenstockError
        As for :func:`penstock.sql`.

    Examples
    --------
    >>> plan = penstock.explain(near, tables, time=time)
    >>> [node.title for node in plan.nodes][:3]
    ['o', 'g', 'window']
    """
    entrance = Entrance.from_call(PLAN, explain, locals())
    options = QueryOptions.from_call(locals(), entrance)
    arguments.mapping()("tables", tables)
    arguments.optional(arguments.whole)("memory_bytes", memory_bytes)
    with memory_explained():
        loaded = as_tables(tables)
        classified = TableQuery.classify(query, loaded, options)
        return explanation(classified, query, memory_bytes=memory_bytes, analyze=analyze)


def explanation(
    query: TableQuery,
    text: str,
    *,
    memory_bytes: int | None = None,
    band: bool = True,
    analyze: bool = False,
    stages: Stages = lambda program, modes: (),
) -> Explanation:
    """Explain a classified query; see :func:`explain`.

    Parameters
    ----------
    text : str
        As its user wrote it.
    band : bool
        Whether band form is allowed.
    stages : callable
        Says which pipeline a program in general form has in hardware.
    """
    notes = Notes()

    def explain_one(notes: Notes, part: TableQuery) -> pa.Table | None:
        if part.relation is not None:
            _explain_lookup(notes, part, *part.relation, memory_bytes)
        elif isinstance(whole := part.whole, GroupQuery):
            _explain_groups(notes, whole, part.needed()[whole.source.table])
        elif whole.nearest is not None:
            join = NearestJoin(whole, part.needed())
            facts = nearest_facts(join.plan)
            _show_query(notes, whole, {}, join.schema, *facts)
            sources = _source_nodes(notes, whole.sides, {})
            search = notes.node("search", "nearest rows", (f"{a} {b}" for a, b in facts), sources)
            _output_node(notes, join.schema.names, (search,))
        else:
            return _explain_join(notes, whole, part.needed(), stages, band=band, analyze=analyze)
        return None

    if not isinstance(query.query, BeyondError):
        explain_one(notes, query)
        return notes.explanation(text)
    parts: list[Part] = []
    # The nodes of tables and parts, by name, and what the join of a part says of itself.
    places: dict[str, int] = {}

    def join(text: str, tables: Mapping[str, Table], options: QueryOptions) -> pa.Table:
        part = TableQuery.classify(text, tables, options)
        inside = Notes()
        inside.sections = notes.sections
        computed = explain_one(inside, part)
        notes.findings += inside.findings
        rows = part.rows(How()) if computed is None else computed
        lines = notes.nodes[places[parts[-1].name]].lines
        for node in inside.nodes:
            if node.kind in ("window", "search", "test", "group"):
                lines += [node.title, *node.lines[:2]] if node.kind != "window" else node.lines
        return rows

    def show(
        part: Part, reads: Mapping[str, pa.Table | RelationTable], calls: Mapping[str, str]
    ) -> None:
        parts.append(part)
        _show_part(notes, part, reads, calls)
        for name, table in reads.items():
            if name not in places:
                places[name] = notes.node("source", name, [_size(table)])
            elif (size := _size(table)) not in (lines := notes.nodes[places[name]].lines):
                lines.append(size)
        engine = [part.engine + (f": {part.why}" if part.why else "")]
        places[part.name] = notes.node("part", part.name, engine, [places[name] for name in reads])

    # Which rows a part reads is known once those before it have run, so they run.
    rows = query.run_parts(join, show)
    last = places[parts[-1].name]
    _output_node(notes, rows.schema.names, (last,), many(rows.num_rows, "row"))
    notes.heading("parts")
    notes.facts((text, "") for text in tree_lines(parts))
    return notes.explanation(text)


def keys_of(
    sides: Mapping[str, SideRows], form: JoinForm
) -> tuple[Sequence[Vector], Sequence[Vector]]:
    """Compute the keys that a form of a join prepares: of window tuples, of stream tuples."""
    window, stream = sides[form.window], sides[other(form.window)]
    return (
        window_keys(form, window.columns, len(window))[: program_keys(form)],
        stream_values(form, stream.columns, len(stream)),
    )


def _show_part(
    notes: Notes,
    part: Part,
    reads: Mapping[str, pa.Table | RelationTable],
    calls: Mapping[str, str],
) -> None:
    """Say which engine runs a part of a query, over which tables."""
    notes.heading(part.name)
    notes.line("engine", part.engine + (f": {part.why}" if part.why else ""))
    for name, table in reads.items():
        is_stored = isinstance(table, RelationTable)
        notes.line("looks up" if is_stored else "reads", f"{name}, {_size(table)}")
    notes.line("text", part.text)
    for name, expression in calls.items():
        notes.line(name, expression)


def _size(table: pa.Table | RelationTable) -> str:
    if isinstance(table, RelationTable):
        with closing(table.open()) as stored:
            version = stored.version(table.version)
            return f"version {version.number}, {many(version.rows, 'row')}"
    return many(table.num_rows, "row")


#: Exponents of Zipf distributions for which the share of keys in memory is shown.
_EXPONENTS = (0.0, 0.8, 1.0, 1.2)


def _explain_lookup(
    notes: Notes,
    table_query: TableQuery,
    name: str,
    relation: RelationTable,
    memory_bytes: int | None,
) -> None:
    """Say layout, path, shares of memory and expected hits of a join with a relation.

    Raises
    ------
    QueryError
        A key column is compared with a value of another type.
    """
    query = table_query.whole
    with closing(relation.open()) as stored:
        plan = LookupPlan(lookup_of(query), name, stored.found_by)
        version = stored.version(relation.version)
        notes.heading("query")
        by_key = plan.sought_keys is not None
        bounds = () if by_key else sorted(Reach(plan, version.index).bounded)
        pruned = f"pruned by {', '.join(bounds)}" if bounds else "all are read"
        notes.facts(lookup_facts(plan, pruned))
        if isinstance(query, GroupQuery):
            notes.facts(group_facts(query, plan.query.names))
        notes.heading("relation")
        order = ", ".join(stored.cluster or stored.key)
        how = "clustered by" if stored.cluster else "by the hash of"
        size = version.bytes / 1e6
        notes.line("version", f"{version.number}, {many(version.rows, 'row')}")
        notes.line("pages", f"{len(version.index):,}, {size:.1f} MB, {how} {order}")
        options = relation.options(memory_bytes, ordered=False, pruning=None)
        width = row_bytes(columns_of(table_query.tables[plan.outer.table]))
        algorithm = options.algorithm if by_key else None
        inner = 0 if by_key else kept_row_bytes(plan, stored)
        split = split_of(version, options.memory_bytes, width, algorithm, kept_row_bytes=inner)
        if by_key:
            notes.line("algorithm", str(options.algorithm))
        parts = (f"{part} {size / 1e6:.1f} MB" for part, size in vars(split).items() if size)
        notes.line("memory", ", ".join(parts))
        if not by_key:
            notes.line("kept", kept_text(version, split, inner))
        elif split.cache:
            kept = kept_keys(version, split.cache)
            shares = "   ".join(
                f"{top_share(kept, version.rows, s):.0%} at exponent {s:g}" for s in _EXPONENTS
            )
            notes.line("hits", f"{shares}, by the Zipf exponent of the stream's keys")
        _lookup_nodes(notes, plan, query, f"version {version.number}, {many(version.rows, 'row')}")


def _lookup_nodes(notes: Notes, plan: LookupPlan, query: Grouped, version: str) -> None:
    """Add the nodes of a look-up in a relation: of its section, all but the version."""
    sides = [replace(side, time=None) for side in (plan.outer, plan.inner)]
    sources = _source_nodes(notes, sides, {plan.inner.side: version})
    topic, text = lookup_facts(plan)[-1]
    costs = [f"{name} {text}" for name, text in notes.sections[-1].facts if name != "version"]
    after = notes.node(
        "search", f"{plan.outer.alias} looks up", [f"{topic} {text}", *costs], sources
    )
    if isinstance(query, GroupQuery):
        texts = (text for _, text in group_facts(query, plan.query.names))
        after = notes.node("group", "groups", texts, (after,))
    values = query.select if query.aggregation is None else query.aggregation.select
    _output_node(notes, (name for name, _ in values), (after,))


def _show_query(
    notes: Notes, query: Grouped, counts: Mapping[str, str], schema: pa.Schema, *more: Fact
) -> None:
    """Say a query, with texts about the rows of each side, and its output."""
    notes.heading("query")
    beyond = (("arithmetic", note) for note in beyond_spark(query))
    output = "output", ", ".join(f"{field.name}: {field.type}" for field in schema)
    notes.facts([*query_facts(query, counts), *more, *beyond, output])


def _source_nodes(notes: Notes, sides: Iterable[Side], counts: Mapping[str, str]) -> list[int]:
    """Add a node for each table of a query."""
    places = []
    for side in sides:
        names = {side.side: side.alias}
        table = f"table {side.table}" if side.table != side.alias else ""
        more = (f"{topic.strip()} {text}" for topic, text in side_facts("", side, names)[1:])
        count = counts.get(side.side, "").removeprefix(", ")
        places.append(notes.node("source", side.alias, (table, count, *more)))
    return places


def _output_node(
    notes: Notes, columns: Iterable[str], after: Sequence[int], *measured: str
) -> None:
    """Add the node of a query's rows."""
    notes.node("output", "output", (*measured, ", ".join(columns)), after)


def _join_nodes(
    notes: Notes,
    join: TableJoin,
    counts: Mapping[str, str],
    explained: Sequence[tuple[Program, Costed]],
    *,
    has_run: bool,
) -> None:
    """Add the nodes of a join of tables, with what it did if it has run."""
    query, stats = join.query, join.stats
    sources = _source_nodes(notes, query.by_event_time.sides, counts)
    meeting = many(join.pairs_in_window, "pair")
    window = notes.node("window", "window", (window_text(query), f"admits {meeting}"), sources)
    is_one, tests = len(join.directions) == 1, []
    for direction, (program, costed) in zip(join.directions, explained, strict=True):
        form = direction.evaluation.form
        tuples, rows = (query.names[side] for side in (direction.side, other(direction.side)))
        done = join.costed.get(direction.form, Costed()).outcome() if has_run else []
        lines = (*_search_lines(costed, tuples, rows), *done)
        search = notes.node("search", f"{tuples} probes {rows}", lines, (window,))
        is_band = isinstance(program, BandProgram)
        lines = [f"codes of {program.key_bits} bits" if is_band else form.why_general(query.names)]
        if has_run and is_one:
            lines += [_tested(stats), f"{stats.busy_s:.3g} s in tasks on {stats.device}"]
        title = form_text(form, query.names) if is_band else "general form"
        tests.append(notes.node("test", title, lines, (search,)))
    if query.aggregation is not None:
        facts = (text for topic, text in group_facts(query, query.names) if topic == "groups")
        tests = [notes.node("group", "groups", facts, tests)]
    measured = []
    if has_run:
        measured = [f"{many(stats.rows, 'row')} in {stats.seconds:.3g} s"]
        measured += [f"{stats.rows_s:.3g} s copying rows"] if stats.rows_s >= 0.001 else []
        measured += [] if is_one else [_tested(stats)]
    _output_node(notes, join.schema.names, tests, *measured)


def _search_lines(costed: Costed, tuples: str, rows: str) -> Iterator[str]:
    chosen = costed.chosen
    if chosen is None:
        yield "every pair is tested"
        return
    yield f"{chosen.kind} by {costed.by(chosen)}"
    share = percent(chosen.share)
    yield f"{costed.tested(chosen):,.0f} rows of {rows} expected for each of {tuples}: {share}"


def _tested(stats: Stats) -> str:
    window = stats.pairs_in_window
    share = percent(stats.pairs_evaluated / window) if window else "none"
    return f"{stats.pairs_evaluated:,} tested, {share} of {window:,} in the window"


def _explain_groups(notes: Notes, query: GroupQuery, table: pa.Table) -> None:
    """Say how one table is grouped."""
    counts = {query.source.side: f", {many(table.num_rows, 'row')}"}
    schema = grouped_table(query, table).schema
    _show_query(notes, query, counts, schema)
    sources = _source_nodes(notes, [query.source], counts)
    texts = (text for _, text in group_facts(query, query.names))
    _output_node(notes, schema.names, (notes.node("group", "groups", texts, sources),))
    notes.heading("devices")
    notes.line("none", "this process folds the rows as they come")


def _explain_join(
    notes: Notes,
    query: JoinQuery,
    tables: Mapping[str, pa.Table],
    stages: Stages,
    *,
    band: bool,
    analyze: bool,
) -> pa.Table | None:
    """Say how a join of tables is run, and which devices can; to analyze it, run it."""
    with open_device("cpu") as device:
        join = TableJoin(query, tables, device, band=band)
        counts = {
            side: f", {many(base.num_rows, 'row')}, {len(join.tables.sides[side]):,} kept"
            for side, base in join.tables.base.items()
        }
        pairs = "pairs", f"{join.pairs_in_window:,} in the window"
        _show_query(notes, query, counts, join.schema, pairs)
        explained = [
            _explain_direction(notes, join, part, device, stages) for part in join.directions
        ]
        programs = [
            (program, frozenset(part.evaluation.modes))
            for part, (program, _) in zip(join.directions, explained, strict=True)
        ]
    notes.heading("devices")
    _show_devices(notes, lambda device: _verdict_of(join, programs, device))
    _show_operator(notes, query, [program for program, _ in programs])
    rows = None
    if analyze:
        with open_device("cpu") as device:
            join = TableJoin(query, tables, device, band=band)
            rows = pa.Table.from_batches(join, join.schema)
        _show_work(notes, join)
    _join_nodes(notes, join, counts, explained, has_run=analyze)
    costed = {one.form: orders for one, (_, orders) in zip(join.directions, explained, strict=True)}
    notes.findings += of_join(join, costed)
    return rows


def _explain_direction(
    notes: Notes, join: TableJoin, direction: Direction, device: Device, stages: Stages
) -> tuple[Program, Costed]:
    """Say what devices evaluate for tuples of one side; return the program, and its orders."""
    part, names, sides = direction.evaluation, join.query.names, join.tables.sides
    form = part.form
    notes.heading(f"{names[other(form.window)]} probes the window of {names[form.window]}")
    if part.fold is not None:
        notes.line("aggregates", ", ".join(join.plan.folds.texts_of(part.fold)))
    if part.modes != (Mode.PAIRS,):
        notes.line("modes", ", ".join(mode.value for mode in part.modes))
    prepared, values = keys_of(sides, form)
    laid_out = layout(
        form, prepared, values, device.key_widths, floats=floats_of(searches=device.searches)
    )
    program, text = laid_out.program, form_text(form, names)
    if isinstance(program, BandProgram):
        text += f", codes of {program.key_bits} bits"
    notes.line("form", text)
    notes.facts(key_facts(form, names, program, (prepared, values)))
    window, stream = sides[form.window], sides[direction.side].pick(direction.rows)
    if isinstance(laid_out, BandLayout):
        run = still(window.time, prepared)
        _show_units(
            notes,
            laid_out,
            part.modes,
            lambda: UnitSample.take(laid_out, run, stream.columns, direction.start, direction.end),
        )
    elif isinstance(program, GeneralProgram):
        notes.facts(stages(program, frozenset(part.modes)))
    notes.facts(search_facts(part.search, names, MOST_SEARCHED))
    costed = expectation(part, window, stream, direction.start, direction.end, device)
    costed.keys = lambda: key_texts(form, names)
    _show_costed(notes, costed, names[direction.side], names[form.window])
    return program, costed


def _show_costed(notes: Notes, costed: Costed, tuples: str, rows: str) -> None:
    """Say orders that were costed, and which one is chosen."""
    lines = costed.lines()
    if not lines:
        why = "no key rules out pairs"
        if costed.pairs < DEFAULT_PRUNING.least_pairs:
            why = f"no order is looked for below {DEFAULT_PRUNING.least_pairs:,}"
        notes.line("orders", f"all {costed.pairs:,} pairs are tested: {why}")
        return
    notes.line(
        "orders", f"rows of {rows} tested for each of {tuples}; time to search; to sort {rows}"
    )
    notes.facts((f"  {name}", text) for name, text in lines)


def _show_work(notes: Notes, join: TableJoin) -> None:
    """Say what a join did, beside what was expected of it."""
    notes.heading("what happened")
    stats = join.stats
    notes.line("rows", f"{stats.rows:,} in {stats.seconds:.3g} s, {stats.busy_s:.3g} s in tasks")
    tested = stats.pairs_evaluated
    notes.line("pairs", _tested(stats))
    for direction in join.directions:
        costed = join.costed.get(direction.form, Costed())
        for text in costed.outcome(tested if len(join.directions) == 1 else None):
            notes.line("order", text)


def _show_units(
    notes: Notes, laid_out: BandLayout, modes: Sequence[Mode], sampled: Callable[[], UnitSample]
) -> None:
    """Say the width of the hardware's units, and the matches of narrower ones."""
    exact = width_for(laid_out.encoders, (*NARROW_WIDTHS, laid_out.bits))
    narrower = [bits for bits in NARROW_WIDTHS if bits < exact]
    if narrower and modes != (Mode.PAIRS,):
        notes.line("units", f"{exact} bits: narrower ones cannot fold, which needs exact codes")
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
        notes.line("units", f"{bits} bits, {maps}: {share} false{verdict}")
        if expected.is_good:
            return
    notes.line("units", f"{exact} bits, which hold every code")


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


def _show_devices(notes: Notes, verdict: Callable[[Device], str]) -> None:
    for name in device_names():
        try:
            with open_device(name) as device:
                notes.line(name, verdict(device))
        except PenstockError as error:
            notes.line(name, f"not here: {error}")


def _show_operator(notes: Notes, query: JoinQuery, programs: Sequence[Program]) -> None:
    """Show which devices can run the window-join operator for the query, or why others cannot."""
    notes.heading("window operator (--operator window)")
    rows = query.window
    if query.aggregation is not None or query.kind.is_existence or not isinstance(rows, RowsWindow):
        feature = "a time window" if query.is_windowed else "no window"
        feature = feature if query.aggregation is None else "aggregates"
        feature = f"a {query.kind.value} JOIN" if query.kind.is_existence else feature
        notes.line("none", f"it gives the pairs of ROWS windows; this query has {feature}")
        return
    # The window over the right side comes first: it matches rows of the left side.
    a, b = programs
    program = WindowProgram(a, b, (rows.left, rows.right))
    _show_devices(notes, lambda device: _verdict(device.refuses(program)))
