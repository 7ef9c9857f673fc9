"""``penstock explain``: shows how a query is compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa

from penstock.host.device.base import PAIRS, Device
from penstock.host.device.registry import device_names, open_device
from penstock.host.devices.narrow.device import NARROW_WIDTHS
from penstock.host.execute.units import UnitSample
from penstock.host.grouping import grouped_table
from penstock.host.join.filtering import with_filter
from penstock.host.join.table.directions import Direction
from penstock.host.join.table.table_join import TableJoin
from penstock.host.keys.encoders import width_for
from penstock.host.keys.layouts import BandLayout, Layout
from penstock.host.keys.prepare import MOST_SEARCHED, layout
from penstock.host.prune.expectation import expectation
from penstock.host.windows.run import still

from ..api.classify import InParts
from ..api.table_query import TableQuery
from ..errors import DeviceError, PenstockError, installing
from ..expr.columns import Vector
from ..expr.node import Expr, show
from ..plan.band import BandForm, Bound
from ..plan.general import GeneralForm
from ..plan.group_query import GroupQuery
from ..plan.query import JoinQuery, RowsWindow, other
from ..plan.shown import group_facts, query_facts, search_facts, side_facts
from ..program import BandProgram, GeneralProgram, Mode, Program, WindowProgram
from ..query.ansi import beyond_spark
from ..types import Type
from ..uses import EXPLAIN, Entrance
from . import inputs
from .explain_parts import explain_lookup, explain_parts
from .options import Written, application
from .terminal import count, facts, heading, line, results, table


@application
def app(
    request: inputs.Asked,
    lookup: inputs.LookupArguments,
    written: Written,
    no_band: inputs.NoBand = False,
) -> None:
    """Show windows, widths, prepared keys, band tests or pipeline stages, and devices."""
    query = request.over(lookup, Entrance(EXPLAIN, frozenset(written)))
    if isinstance(query.query, InParts):
        explain_parts(query, partial(_explain, band=not no_band))
    elif query.relation is not None:
        explain_lookup(query, *query.relation, lookup.memory_bytes)
    else:
        _explain(query, band=not no_band)


def _explain(table_query: TableQuery, *, band: bool) -> None:
    """Print how a join of tables, or groups of one, are run."""
    query, tables = table_query.whole, table_query.needed()
    if isinstance(query, GroupQuery):
        _explain_groups(query, tables[query.source.table])
        return
    with open_device("cpu") as device:
        join = TableJoin(query, tables, device, band=band)
        explanation = _Explanation(query, join)
        explanation.query()
        programs = [
            (explanation.direction(part, device), frozenset(part.evaluation.modes))
            for part in join.directions
        ]
    heading("devices")
    _show_devices(lambda device: _verdict_of(join, programs, device))
    _show_operator(query, [program for program, _ in programs])


def _explain_groups(query: GroupQuery, table: pa.Table) -> None:
    """Print how one table is grouped."""
    source, names = query.source, query.names
    heading("query")
    facts(side_facts("source", source, names, f", {count(table.num_rows)} rows"))
    if query.time_zone is not None:
        line("time zone", query.time_zone)
    for note in beyond_spark(query):
        line("arithmetic", note)
    facts(group_facts(query, names))
    schema = grouped_table(query, table).schema
    line("output", ", ".join(f"{f.name}: {f.type}" for f in schema))
    heading("devices")
    line("none", "this process folds the rows as they come")


class _Explanation:
    """Prints a query with its author's names."""

    def __init__(self, query: JoinQuery, join: TableJoin) -> None:
        self.compiled = query
        self.join = join
        self.names = query.names

    def text(self, expr: Expr) -> str:
        return show(expr, self.names)

    def query(self) -> None:
        query, join = self.compiled, self.join
        heading("query")
        bases, sides = join.tables.base, join.tables.sides
        counts = {
            side: f", {count(base.num_rows)} rows, {count(len(sides[side]))} kept"
            for side, base in bases.items()
        }
        facts(query_facts(query, counts))
        line("pairs", f"{count(join.pairs_in_window)} in the window")
        for note in beyond_spark(query):
            line("arithmetic", note)
        line("output", ", ".join(f"{f.name}: {f.type}" for f in join.schema))

    def direction(self, direction: Direction, device: Device) -> Program:
        part, names = direction.evaluation, self.names
        form = part.form
        heading(f"{names[other(form.window)]} probes the window of {names[form.window]}")
        if part.fold is not None:
            line("aggregates", ", ".join(self.join.plan.folds.texts_of(part.fold)))
        if part.modes != (Mode.PAIRS,):
            line("modes", ", ".join(mode.value for mode in part.modes))
        prepared, values = inputs.keys_of(self.join.tables.sides, form)
        laid_out = layout(form, prepared, values, device.key_widths)
        program = laid_out.program
        if isinstance(form.form, BandForm) and isinstance(program, BandProgram):
            self.band(form.form, program, prepared)
            self.units(direction, laid_out, prepared)
        elif isinstance(form.form, GeneralForm) and isinstance(program, GeneralProgram):
            line("form", f"general, because {form.why_general(self.names)}")
            self.keys(form.form, program, prepared, values)
            line("per pair", show(program.predicate))
            if program.value is not None:
                line("folded", show(program.value))
            _show_stages(program, frozenset(part.modes))
        self.search(direction, device)
        return program

    def search(self, direction: Direction, device: Device) -> None:
        """Print the keys by which window rows are searched, and the expected saving."""
        part, sides = direction.evaluation, self.join.tables.sides
        facts(search_facts(part.search, self.names, MOST_SEARCHED))
        window, stream = sides[part.form.window], sides[direction.side].pick(direction.rows)
        expected = expectation(part, window, stream, direction.start, direction.end, device)
        if expected is None:
            return
        grid = expected.choice.grid
        line("  cells", f"{count(grid.cells)} for each {count(expected.rows)} rows")
        share = f"{100 * expected.share:.2g} % of the pairs in the window are expected to be tested"
        line("  share", share if expected.is_worth else "all pairs: testing them is as fast")

    def band(self, form: BandForm, program: BandProgram, prepared: Sequence[Vector]) -> None:
        line("form", f"band, {program.tests} tests, codes of {program.key_bits} bits")
        shown = table("test", "key of the window tuple", "declared", "in the data", "bounds")
        for index, (test, v) in enumerate(zip(form.tests, prepared, strict=False)):
            bounds = [self.bound(b, ">") for b in test.lo] + [self.bound(b, "<") for b in test.hi]
            bounds += [f"if {self.text(condition)}" for condition in test.when]
            key = test.key.type
            cells = (self.text(test.key), _declared(key), _present(v, key), ", ".join(bounds))
            shown.add_row(f"t{index}", *cells)
        results.print(shown)
        line("truth table", f"{program.table:#x}")
        cubes = [" and ".join(f"t{d}" for d in _members(c)) or "always" for c in program.cubes]
        line("  true where", " or ".join(cubes) if cubes else "never")
        if form.need is not None:
            line("  and where", self.text(form.need))
        if form.payload is not None:
            line("folded", f"{self.text(form.payload)} of the window tuple")

    def units(self, direction: Direction, laid_out: Layout, prepared: Sequence[Vector]) -> None:
        """Print the width of the hardware's units, and the matches of narrower ones."""
        program, modes = laid_out.program, direction.evaluation.modes
        assert isinstance(laid_out, BandLayout)
        assert isinstance(program, BandProgram)
        exact = width_for(laid_out.encoders, (*NARROW_WIDTHS, program.key_bits))
        narrower = [bits for bits in NARROW_WIDTHS if bits < exact]
        if narrower and modes != (Mode.PAIRS,):
            line("units", f"{exact} bits: narrower ones cannot fold, which needs exact codes")
            return
        if not narrower:
            line("units", f"{exact} bits, which hold every code")
            return
        window = self.join.tables.sides[direction.evaluation.form.window]
        stream = self.join.tables.sides[direction.side].pick(direction.rows)
        run = still(window.time, prepared)
        sample = UnitSample.take(laid_out, run, stream.columns, direction.start, direction.end)
        for bits in narrower:
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

    def bound(self, bound: Bound, sign: str) -> str:
        shown = sign if bound.open else f"{sign}="
        after = "all text starting with " if bound.after else ""
        return f"{shown} {after}{self.text(bound.expr)}"

    def keys(
        self,
        form: GeneralForm,
        program: GeneralProgram,
        window: Sequence[Vector],
        stream: Sequence[Vector],
    ) -> None:
        shown = table("key", "prepared from", "declared", "in the data", "bits")
        sides = (
            ("w", form.window_keys, window, program.window),
            ("s", form.stream_keys, stream, program.stream),
        )
        for letter, sources, values, types in sides:
            for index, (source, v, dtype) in enumerate(zip(sources, values, types, strict=True)):
                key, text = source.expr.type, self.text(source.expr)
                cell = text if source.kind == "value" else f"{source.kind}: {text}"
                cells = (cell, _declared(key), _present(v, key), str(dtype.bits))
                shown.add_row(f"{letter}{index}", *cells)
        results.print(shown)


def _members(cube: int) -> list[int]:
    return [d for d in range(cube.bit_length()) if cube >> d & 1]


def _declared(dtype: Type) -> str:
    return f"{dtype}, {dtype.bits} bits" if dtype.is_integral else str(dtype)


def _present(v: Vector, dtype: Type) -> str:
    if not len(v.values):
        return "-"
    nulls = "" if v.valid is None else ", NULL"
    if dtype.is_integral and v.values.dtype.kind in "iu":
        return f"{v.lo}..{v.hi}{nulls}"
    return f"{dtype.kind.value}{nulls}"


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
        results.print(f"  {stage}", markup=False, highlight=False)


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
        feature = "a time window" if query.aggregation is None else "aggregates"
        feature = f"a {query.kind.value} JOIN" if query.kind.is_existence else feature
        line("none", f"it gives the pairs of ROWS windows; this query has {feature}")
        return
    # The window over the right side comes first: it matches rows of the left side.
    a, b = programs
    program = WindowProgram(a, b, (rows.left, rows.right))
    _show_devices(lambda device: _verdict(device.refuses(program)))
