"""Facts that every explanation has: window, form of the predicate, devices."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.errors import PenstockError
from penstock.host.device.registry import open_device
from penstock.plan.plan import plan
from penstock.plan.query import JoinQuery
from penstock.plan.shown import Fact, form_facts
from penstock.query.ansi import beyond_spark

from .devices import NOTHING, DeviceChoice

#: Most lines of a topic, so that an explanation is a screen.
_MOST_LINES = 4


def show(facts: Iterable[Fact], *, extended: bool = False) -> str:
    """A fact per line; of a topic with many, all only where ``extended`` asks for them."""
    topics: list[list[str]] = []
    last = None
    for name, text in facts:
        if name not in ("", last) or not topics:
            topics.append([])
        topics[-1].append(f"{name:12} {text}")
        last = name or last
    lines = []
    for topic in topics:
        cut = len(topic) if extended or len(topic) <= _MOST_LINES + 1 else _MOST_LINES
        lines += topic[:cut]
        if cut < len(topic):
            lines.append(f"{'':12} and {len(topic) - cut} more, with extended=True")
    return "\n".join(lines)


def explanation(
    query: JoinQuery, facts: Iterable[Fact], choice: DeviceChoice, *, extended: bool
) -> str:
    """Describe a query as text, a fact per line: its own facts, then its form and devices."""
    return show([*facts, *form_facts(plan(query)), *devices(choice)], extended=extended)


def subject(query: JoinQuery) -> list[Fact]:
    """The sides, the window, and arithmetic that is exact here but not in Spark."""
    is_timed = query.is_rows or query.left.time is not None
    return [
        ("join", f"{query.kind.value.lower()} of {query.left.alias} and {query.right.alias}"),
        ("window", str(query.window) if is_timed else "none: a row may meet all rows"),
        time_zone(query),
        *(("arithmetic", note) for note in beyond_spark(query)),
    ]


def time_zone(query: JoinQuery) -> Fact:
    """The time zone of a query, and where it comes from."""
    return "time zone", f"{query.time_zone}, spark.sql.session.timeZone at the time of the call"


def devices(choice: DeviceChoice) -> list[Fact]:
    """Say which device the driver expects tasks to use, and why."""
    spec, conf = choice.resolve(), choice.conf
    texts = [f"{spec.name}, by {spec.origin}"]
    if choice.argument is None:
        texts.append(f"a task with a resource {conf.resource} uses that device instead")
    if spec.name == "cpu":
        if spec.origin == NOTHING:
            texts[0] = "cpu, since the call, spark.penstock.device and PENSTOCK_DEVICE name none"
        return [("device", text) for text in texts]
    if conf.fallback == "cpu":
        texts.append("a task that cannot use it goes to cpu (spark.penstock.device.fallback)")
    slots = choice.slots(spec)
    if slots:
        texts.append(f"tasks of one host that use it at a time: {slots}")
    try:
        open_device(spec.name, **spec.options).close()
    except PenstockError as error:
        then = "cpu" if conf.fallback == "cpu" else "an error"
        texts.append(f"here it cannot be opened, and a task like that gets {then}: {error}")
    return [("device", text) for text in texts]
