"""Explains a batch join in words."""

from __future__ import annotations

from penstock.plan.query import JoinQuery, other

from ..explaining import Fact, devices, forms, show, subject
from .choose import Choice
from .join import BatchPlan


def describe(plan: BatchPlan, *, extended: bool = False) -> str:
    """The plan as text, a fact per line."""
    request = plan.request
    query = request.query
    lines = subject(query)
    for number, choice in enumerate(plan.halves):
        lines += _shards(query, choice, number, len(plan.halves))
    known = plan.halves[0].evaluations
    estimate = "not known without a look at the times"
    if known is not None:
        estimate = f"about {known:.3g} pairs in the window, before pruning"
    lines.append(("evaluations", estimate))
    lines += forms(query)
    lines += devices(request.device)
    if query.aggregation is not None:
        lines.append(("groups", "partial aggregates per lane, merged by key in a second stage"))
    return show(lines, extended=extended)


def _shards(query: JoinQuery, choice: Choice, number: int, halves: int) -> list[Fact]:
    shards = choice.shards
    what = ""
    if halves == 2:
        what = ("; pairs and left rows", "; right rows without a match")[number]
    noun = "lane" if shards.count == 1 else "lanes"
    names, side = query.names, shards.side
    held = f"rows of {names[side]} are held, those of {names[other(side)]}"
    found = [("lanes", f"{shards.count} {noun}: {choice.reason}{what}")]
    moved = f"; about {choice.moved:.3g} rows are sent" if choice.moved else ""
    found.append(("", f"{held} stream past them{moved}"))
    return [*found, ("", choice.keys)] if choice.keys else found
