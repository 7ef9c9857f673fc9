"""What a batch join will do, in words."""

from __future__ import annotations

from penstock.query.plan import JoinQuery, other
from penstock.spark_bridge.batch.choose import Choice
from penstock.spark_bridge.batch.join import BatchPlan
from penstock.spark_bridge.explaining import Fact, devices, forms, subject, told


def explained(plan: BatchPlan) -> str:
    """The plan as text, a fact per line."""
    request = plan.request
    query = request.query
    lines = subject(query)
    for number, choice in enumerate(plan.halves):
        lines += _lanes(query, choice, number, len(plan.halves))
    known = plan.halves[0].evaluations
    estimate = "not known without a look at the times" if known is None else f"about {known:.3g}"
    lines.append(("evaluations", f"{estimate} pairs in the window, before pruning"))
    lines += forms(query)
    lines += devices(request.device)
    if query.aggregation is not None:
        lines.append(("groups", "partial aggregates per lane, merged by key in a second stage"))
    return told(lines)


def _lanes(query: JoinQuery, choice: Choice, number: int, halves: int) -> list[Fact]:
    lanes = choice.lanes
    what = ""
    if halves == 2:
        what = ("; pairs and left rows", "; right rows without a match")[number]
    noun = "lane" if lanes.count == 1 else "lanes"
    held = f"rows of {query.names[lanes.side]} are held, those of {query.names[other(lanes.side)]}"
    found = [("lanes", f"{lanes.count} {noun}: {choice.reason}{what}")]
    moved = f"; about {choice.moved:.3g} rows are sent" if choice.moved else ""
    return [*found, ("", f"{held} stream past them{moved}")]
