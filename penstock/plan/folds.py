"""The folds that a query's aggregates need, each computed once.

An aggregate of the group's own side alone needs no value on the device: it follows from each row's
number of matches. Others fold their value where it is not NULL.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..expr import ops
from ..expr.node import Expr
from ..program import Mode
from .linear import as_integer
from .query import Aggregate, Aggregation

_MODES = {"sum": Mode.SUM, "min": Mode.MIN, "max": Mode.MAX}


@dataclass(frozen=True)
class FoldKey:
    """A fold's value (None: the matches themselves), and whether positions are wanted."""

    value: Expr | None
    nearest: bool = False


@dataclass
class FoldPlan:
    """Folds of a query.

    Parameters
    ----------
    modes : dict of FoldKey to set of Mode
        Modes of each fold's program.
    needs : list of dict of str to (FoldKey, Mode)
        One per aggregate: what gives each fold of its value, by the fold's name. A value of the
        group's own side has "count" alone: the row's value and the number of its matches suffice.
    match_fold : (FoldKey, Mode)
        Tells whether a row has a match.
    texts : dict of FoldKey to list of str
        The aggregates that need each fold, for messages.
    """

    modes: dict[FoldKey, set[Mode]] = field(default_factory=dict)
    needs: list[dict[str, tuple[FoldKey, Mode]]] = field(default_factory=list)
    match_fold: tuple[FoldKey, Mode] = (FoldKey(None), Mode.EXISTS)
    texts: dict[FoldKey, list[str]] = field(default_factory=dict)

    def ask(self, key: FoldKey, mode: Mode, text: str) -> tuple[FoldKey, Mode]:
        self.modes.setdefault(key, set()).add(mode)
        self.texts.setdefault(key, []).append(text)
        return key, mode

    def texts_of(self, key: FoldKey) -> tuple[str, ...]:
        """The aggregates that need a fold, each once."""
        return tuple(dict.fromkeys(self.texts[key]))


def fold_plan(aggregation: Aggregation) -> FoldPlan:
    """Folds of all aggregates; values that cannot be NULL should have types that say so."""
    plan = FoldPlan()
    assert aggregation.side is not None
    folding_side = frozenset({aggregation.side})
    nearest = {
        a.by
        for a in aggregation.aggregates
        if a.function == "min_by" and a.by is not None and a.by.sides - folding_side
    }
    counts: list[tuple[int, Aggregate]] = []
    for index, one in enumerate(aggregation.aggregates):
        needs: dict[str, tuple[FoldKey, Mode]] = {}
        plan.needs.append(needs)
        value = one.value
        is_of_pairs = value is not None and bool(value.sides - folding_side)
        for name in one.folds:
            if name == "nearest":
                key = FoldKey(least_of(one), nearest=True)
                needs[name] = plan.ask(key, Mode.NEAREST, one.text)
            elif name == "min" and value in nearest:
                key = FoldKey(value, nearest=True)
                needs[name] = plan.ask(key, Mode.NEAREST, one.text)
            elif name != "count" and is_of_pairs:
                needs[name] = plan.ask(FoldKey(value), _MODES[name], one.text)
        if "count" in one.folds or not needs:
            counts.append((index, one))
    for index, one in counts:
        value = one.value
        filtered = value is not None and value.sides - folding_side and value.type.nullable
        key = FoldKey(value) if filtered else _every_match(plan) or FoldKey(None)
        plan.needs[index]["count"] = plan.ask(key, Mode.COUNT, one.text)
    key = _every_match(plan)
    if key is None:
        plan.ask(FoldKey(None), Mode.EXISTS, "the groups")
    else:
        plan.match_fold = key, min(plan.modes[key], key=lambda mode: mode.value)
    return plan


def least_of(one: Aggregate) -> Expr:
    """The expression whose least value decides ``min_by`` or ``max_by``."""
    assert one.by is not None
    # Times have no negative, the integers that count them do.
    return ops.neg(as_integer(one.by)) if one.function == "max_by" else one.by


def _every_match(plan: FoldPlan) -> FoldKey | None:
    """A fold over all matches: without a value, or else with one that is never NULL."""
    keys = [k for k in plan.modes if k.value is None or not k.value.type.nullable]
    return min(keys, key=lambda k: (k.value is not None, k.nearest), default=None)
