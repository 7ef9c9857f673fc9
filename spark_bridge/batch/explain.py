"""What a batch join will do, in words."""

from __future__ import annotations

from penstock.errors import PenstockError, QueryError
from penstock.host.device.registry import open_device
from penstock.query.plan import LEFT, RIGHT, JoinQuery, other
from penstock.rewrite.band import BandForm
from penstock.rewrite.forms import join_form
from penstock.spark_bridge.batch.choose import Choice
from penstock.spark_bridge.batch.join import BatchPlan
from penstock.spark_bridge.devices import NOTHING, DeviceChoice


def explained(plan: BatchPlan) -> str:
    """The plan as text, a fact per line."""
    request = plan.request
    query = request.query
    lines = [
        ("join", f"{query.kind.value.lower()} of {query.left.alias} and {query.right.alias}"),
        ("window", str(query.window)),
    ]
    for number, choice in enumerate(plan.halves):
        lines += _lanes(query, choice, number, len(plan.halves))
    known = plan.halves[0].evaluations
    estimate = "not known without a look at the times" if known is None else f"about {known:.3g}"
    lines.append(("evaluations", f"{estimate} pairs in the window, before pruning"))
    lines += [("form", text) for text in _forms(query)]
    lines += [("device", text) for text in _device(request.device)]
    if query.aggregation is not None:
        lines.append(("groups", "partial aggregates per lane, merged by key in a second stage"))
    return "\n".join(f"{name:12} {text}" for name, text in lines)


def _lanes(query: JoinQuery, choice: Choice, number: int, halves: int) -> list[tuple[str, str]]:
    lanes = choice.lanes
    what = ""
    if halves == 2:
        what = ("; pairs and left rows", "; right rows without a match")[number]
    noun = "lane" if lanes.count == 1 else "lanes"
    held = f"rows of {query.names[lanes.side]} are held, those of {query.names[other(lanes.side)]}"
    found = [("lanes", f"{lanes.count} {noun}: {choice.reason}{what}")]
    moved = f"; about {choice.moved:.3g} rows are sent" if choice.moved else ""
    return [*found, ("", f"{held} stream past them{moved}")]


def _forms(query: JoinQuery) -> list[str]:
    """The predicate's form in both directions."""
    found = []
    for window in (RIGHT, LEFT):
        direction = f"{query.names[other(window)]} probes {query.names[window]}"
        try:
            form = join_form(query.predicate, window)
        except QueryError as error:
            found.append(f"{direction}: none, {error}")
            continue
        if isinstance(form.form, BandForm):
            found.append(f"{direction}: band, {len(form.form.tests)} tests")
        else:
            found.append(f"{direction}: general, because {form.why_general(query.names)}")
    return found


def _device(choice: DeviceChoice) -> list[str]:
    """Which device the tasks use, as far as it is known here, and why the CPU device."""
    spec, conf = choice.resolved(), choice.conf
    found = [f"{spec.name}, by {spec.origin}"]
    if choice.argument is None:
        found.append(f"a task with a resource {conf.resource} uses that device instead")
    if spec.name == "cpu":
        if spec.origin == NOTHING:
            found[0] = "cpu, since the call, spark.penstock.device and PENSTOCK_DEVICE name none"
        return found
    if conf.fallback == "cpu":
        found.append("a task that cannot use it goes to cpu (spark.penstock.device.fallback)")
    slots = choice.slots(spec)
    if slots:
        found.append(f"tasks of one host that use it at a time: {slots}")
    try:
        open_device(spec.name, **spec.options).close()
    except PenstockError as error:
        then = "cpu" if conf.fallback == "cpu" else "an error"
        found.append(f"here it cannot be opened, and a task like that gets {then}: {error}")
    return found
