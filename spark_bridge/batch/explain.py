"""Explains a join of batch DataFrames in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.plan.nearest import NearestPlan, nearest_facts
from penstock.plan.query import JoinQuery, other
from penstock.plan.shown import Fact
from penstock.words import many

from ..explaining import explanation, show, subject
from .choose import Choice

if TYPE_CHECKING:
    from .join import BatchPlan


def describe(plan: BatchPlan, *, extended: bool = False) -> str:
    """Describe a plan as text, a fact per line."""
    query = plan.request.query
    facts = subject(query)
    for number, choice in enumerate(plan.halves):
        facts += _shards(query, choice, number, len(plan.halves))
    if query.nearest is not None:
        return show([*facts, *nearest_facts(NearestPlan(query))], extended=extended)
    if plan.halves[0].native is not None:
        return show(facts, extended=extended)
    known = plan.halves[0].evaluations
    estimate = "not known without a look at the times"
    if known is not None:
        estimate = f"about {known:.3g} pairs in the window, before pruning"
    facts.append(("evaluations", estimate))
    if query.aggregation is not None:
        facts.append(("groups", "partial aggregates per lane, merged by key in a second stage"))
    return explanation(query, facts, plan.request.device, extended=extended)


def _shards(query: JoinQuery, choice: Choice, number: int, halves: int) -> list[Fact]:
    shards = choice.shards
    if choice.native is not None:
        return [("joined by", f"Spark itself: {choice.reason}")]
    half = ""
    if halves == 2:
        half = ("; pairs and left rows", "; right rows without a match")[number]
    names, side = query.names, shards.side
    held = f"rows of {names[side]} are held, those of {names[other(side)]}"
    facts = [("lanes", f"{many(shards.count, 'lane')}: {choice.reason}{half}")]
    moved = f"; about {choice.moved:.3g} rows are sent" if choice.moved else ""
    facts.append(("", f"{held} stream past them{moved}"))
    return [*facts, ("", choice.keys)] if choice.keys else facts
