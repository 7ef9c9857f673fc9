"""Plans as text: the facts that a query and the schemas of its tables decide, without any row.

``str(plan)`` prints them, and the explanations of the command line and of Spark are made of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..errors import QueryError
from ..expr.node import Expr, show
from ..expr.ops import over_columns
from ..expr.periods import as_tumbling
from ..expr.vector import Vector
from ..program import BandProgram, GeneralProgram, Program
from ..types import UNIT_NS, Type
from ..words import many, span
from .band import BandForm, Bound
from .forms import JoinForm
from .general import GeneralForm
from .group_query import Grouped, GroupQuery, require_closing, time_key
from .query import JoinQuery, Side, TimeWindow, other
from .search import Search

if TYPE_CHECKING:
    from .lookup import LookupPlan
    from .plan import JoinPlan

#: A topic and a text; the topic is empty if the text continues the fact before.
Fact = tuple[str, str]


def text_of(facts: Iterable[Fact]) -> str:
    """One fact per line."""
    return "\n".join(f"{topic:14} {text}".rstrip() for topic, text in facts)


def plan_facts(plan: JoinPlan) -> list[Fact]:
    """All that is known of a join: its query, the forms of its predicate, its output columns."""
    query = plan.query
    facts = [*query_facts(query), *form_facts(plan, with_keys=True)]
    if query.aggregation is None:
        facts += leaving_facts(query)
    elif query.aggregation.side is not None:
        for key, modes in plan.folds.modes.items():
            aggregates = ", ".join(plan.folds.texts_of(key))
            facts.append(("folds", f"{aggregates}: {', '.join(sorted(m.value for m in modes))}"))
    columns = query.select if query.aggregation is None else query.aggregation.select
    return [*facts, ("output", ", ".join(f"{name}: {value.type}" for name, value in columns))]


def query_facts(query: Grouped, counts: Mapping[str, str] | None = None) -> list[Fact]:
    """The sides of a query, its window, predicate and groups; ``counts`` are texts by side."""
    names, counts = query.names, counts or {}
    zone = [] if query.time_zone is None else [("time zone", query.time_zone)]
    groups = [] if query.aggregation is None else group_facts(query, names)
    if isinstance(query, GroupQuery):
        source = query.source
        return [*side_facts("source", source, names, counts.get(source.side, "")), *zone, *groups]
    judged, facts = query.by_event_time, list[Fact]()
    types = judged.column_types()
    for topic, side in zip(("left", "right"), judged.sides, strict=True):
        facts += side_facts(topic, side, names, counts.get(side.side, ""))
        read = (f"{name} {types[side.side, name]}" for name in judged.columns_of(side.side))
        facts.append(("  reads", ", ".join(read) or "no column"))
    facts += [("join", query.kind.value.lower()), ("window", window_text(query))]
    return [*facts, *zone, ("predicate", show(query.predicate, names)), *groups]


def window_text(query: JoinQuery) -> str:
    """The window of a join; one of times also in words."""
    window = query.sessions or query.window
    if not query.is_windowed:
        return "none: all rows meet"
    if not isinstance(window, TimeWindow) or not window.unit:
        return str(window)
    left, right = (query.names[side.side] for side in query.sides)
    seconds = UNIT_NS[window.unit] / 1e9
    # How far the right side's time may lie from the left's; None is unbounded.
    ends = [None if end is None else end * seconds for end in (window.before, window.after)]
    bounds = [
        f"any time {word}" if end is None else f"{span(abs(end))} {word if end >= 0 else opposite}"
        for end, word, opposite in zip(ends, ("before", "after"), ("after", "before"), strict=True)
    ]
    return f"{window} ({right} from {bounds[0]} to {bounds[1]} {left})"


def lookup_facts(plan: LookupPlan, pages: str = "all are read") -> list[Fact]:
    """The stream and the relation of a look-up, its condition, and how rows are found.

    Parameters
    ----------
    pages : str
        The relation's pages that a scan reads.
    """
    query, names = plan.query, plan.query.names
    facts = [
        *side_facts("stream", replace(plan.outer, time=None), names),
        *side_facts("relation", replace(plan.inner, time=None), names),
        ("join", query.kind.value.lower()),
        ("predicate", show(query.predicate, names)),
    ]
    if plan.sought_keys is None:
        return [*facts, ("by scanning", f"pages of {plan.inner.alias}: {pages}")]
    return [*facts, ("by key", plan.keys_text)]


def side_facts(topic: str, side: Side, names: Mapping[str, str], count: str = "") -> list[Fact]:
    """The table of a side, its time and filter."""
    table = f" (table {side.table})" if side.table != side.alias else ""
    times = [] if side.time is None else [("  time", show(side.time, names))]
    filters = [] if side.filter.is_const else [("  filter", show(side.filter, names))]
    return [(topic, f"{side.alias}{table}{count}"), *times, *filters]


def form_facts(plan: JoinPlan, *, with_keys: bool = False) -> list[Fact]:
    """The form of the predicate in each direction in which devices may evaluate it."""
    facts: list[Fact] = []
    for window in [other(plan.probing)] if plan.probing else ["r", "l"]:
        names = plan.query.names
        direction = f"{names[other(window)]} probes {names[window]}"
        try:
            evaluation = plan.pairs(window)
        except QueryError as error:
            facts.append(("form", f"{direction}: none, {error}"))
            continue
        facts.append(("form", f"{direction}: {form_text(evaluation.form, names)}"))
        facts += key_facts(evaluation.form, names) if with_keys else []
        facts += search_facts(evaluation.search, names)
    return facts


def form_text(form: JoinForm, names: Mapping[str, str]) -> str:
    """Whether a predicate is a band, or why it is not."""
    if not isinstance(form.form, BandForm):
        return f"general, because {form.why_general(names)}"
    return f"band, {many(len(form.form.tests), 'test')}"


def key_facts(
    form: JoinForm,
    names: Mapping[str, str],
    program: Program | None = None,
    values: tuple[Sequence[Vector], Sequence[Vector]] = ((), ()),
) -> list[Fact]:
    """The keys that devices compare, and when the predicate is TRUE.

    Parameters
    ----------
    program : Program, optional
        The form with the types of the keys that came.
    values : pair of sequences of Vector
        With a program: the keys that came, of window tuples and of stream tuples.
    """
    inner, facts = form.form, list[Fact]()
    if isinstance(inner, GeneralForm):
        typed = program if isinstance(program, GeneralProgram) else None
        types = ((), ()) if typed is None else (typed.window, typed.stream)
        sources = ("w", inner.window_keys), ("s", inner.stream_keys)
        for (letter, keys), vectors, narrowed in zip(sources, values, types, strict=True):
            for number, key in enumerate(keys):
                text = "" if key.kind == "value" else f"{key.kind}: "
                text += f"{show(key.expr, names)}; {_type_text(key.expr.type)}"
                bits = f", {narrowed[number].bits} bits" if narrowed else ""
                facts.append((f"  {letter}{number}", text + _data_text(vectors, number) + bits))
        whole = typed or inner
        facts.append(("per pair", show(whole.predicate)))
        return facts if whole.value is None else [*facts, ("folded", show(whole.value))]
    for number, test in enumerate(inner.tests):
        bounds = [_bound_text(bound, ">", names) for bound in test.lo]
        bounds += [_bound_text(bound, "<", names) for bound in test.hi]
        bounds += [f"if {show(condition, names)}" for condition in test.when]
        text = f"{show(test.key, names)}: {', '.join(bounds)}; {_type_text(test.key.type)}"
        facts.append((f"  t{number}", text + _data_text(values[0], number)))
    facts.append(("truth table", f"{inner.table:#x}"))
    cubes = BandProgram(len(inner.tests), inner.table).cubes
    tests = ([f"t{d}" for d in range(len(inner.tests)) if cube >> d & 1] for cube in cubes)
    ways = [" and ".join(one) or "always" for one in tests]
    facts.append(("  true where", " or ".join(ways) or "never"))
    if inner.need is not None:
        facts.append(("  and where", show(inner.need, names)))
    if inner.payload is not None:
        facts.append(("folded", f"{show(inner.payload, names)} of the window tuple"))
    return facts


def _type_text(dtype: Type) -> str:
    return f"{dtype}, {dtype.bits} bits" if dtype.is_integral else str(dtype)


def _data_text(keys: Sequence[Vector], number: int) -> str:
    """The values of a key, if there are any."""
    if not keys or not len(keys[number].values):
        return ""
    key = keys[number]
    nulls = "" if key.valid is None else ", NULL"
    return f"; in the data {key.lo}..{key.hi}{nulls}" if key.values.dtype.kind in "iu" else nulls


def _bound_text(bound: Bound, sign: str, names: Mapping[str, str]) -> str:
    after = "all text starting with " if bound.after else ""
    return f"{sign if bound.open else f'{sign}='} {after}{show(bound.expr, names)}"


def search_facts(search: Search, names: Mapping[str, str], most: int | None = None) -> list[Fact]:
    """The keys by which a window is searched, and why other conjuncts give none."""
    facts: list[Fact] = []
    for key in (*search.keys, *search.halves)[:most]:
        relation = "follows from" if key.is_implied else "is"
        text = f"{show(key.test.key, names)}, {relation} {show(key.conjunct, names)}"
        facts.append(("searched by", text))
    if not facts:
        facts.append(("searched by", "no key: every pair in the window is tested"))
    refusals = search.refused(names)
    return facts + [("  not by", f"{show(fact, names)}: {reason}") for fact, reason in refusals]


def leaving_facts(query: JoinQuery) -> list[Fact]:
    """The rules by which rows of a join of streams leave it; groups have theirs."""
    names, facts = query.names, list[Fact]()
    if query.is_rows:
        facts.append(("leaving", "rows wait until the watermarks of both sides pass their time"))
    elif query.aggregation is None and not query.kind.is_existence:
        facts.append(("leaving", "pairs with their later row"))
    once = {query.left.side} if query.kind.is_existence else query.kind.unmatched
    for side in sorted(once):
        rows = "rows" if query.kind.is_existence else "rows without a match"
        text = f"{rows} of {names[side]} when the watermark of {names[other(side)]} has passed"
        facts.append(("leaving", f"{text} the end of their window"))
    return facts


def group_facts(query: Grouped, names: Mapping[str, str]) -> list[Fact]:
    """The keys of groups, their folding, and the rule by which groups of a stream leave.

    Parameters
    ----------
    names : mapping of side to str
        Aliases; of a look-up those of both sides.
    """
    aggregation = query.aggregation
    assert aggregation is not None
    keys = [_key_text(_over_tables(query, key), names) for key in aggregation.keys]
    session = aggregation.session
    if session is not None:
        gap = f"{session.gap} {aggregation.keys[session.key].type.unit}".rstrip()
        keys[session.key] = f"sessions of {keys[session.key]} with gaps of {gap} at most"
    by = f"by {', '.join(keys)}" if keys else "one"
    how = "the pairs are grouped on the host"
    if isinstance(query, GroupQuery):
        rows = "each row" if query.lookup is None else "each pair that the look-up gives"
        how = f"{rows} is folded into its group"
    elif aggregation.side is not None:
        how = f"each row of {names[aggregation.side]} is folded over its matches on the device"
    return [("groups", f"{by}; {how}"), *_closing_facts(query, keys)]


def _closing_facts(query: Grouped, keys: list[str]) -> list[Fact]:
    try:
        require_closing(query)
    except QueryError as error:
        return [("  in a stream", f"refused: {error}")]
    assert query.aggregation is not None
    if query.aggregation.session is not None:
        rule = "leave when no later row can lie within the gap after their last one"
        return [("  in a stream", rule)]
    key = time_key(query)
    row = "row" if isinstance(query, GroupQuery) else "pair"
    rule = f"leave when no later {row} can have their {keys[key.index]}" if key else None
    return [] if rule is None else [("  in a stream", rule)]


def _over_tables(query: Grouped, expr: Expr) -> Expr:
    """An expression over the tables that the query names, not over a look-up's output."""
    if not isinstance(query, GroupQuery) or query.lookup is None:
        return expr
    select = dict(query.lookup.select)
    return over_columns(expr, lambda column: select[column.attr[1]])


def _key_text(key: Expr, names: Mapping[str, str]) -> str:
    window = as_tumbling(key)
    if window is None:
        return show(key, names)
    unit = f" {window.size.type.unit}" if window.size.type.unit else ""
    return f"window({show(window.time, names)}, {show(window.size, names)}{unit})"
