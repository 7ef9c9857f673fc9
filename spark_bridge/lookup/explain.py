"""Explains a join with a relation in words."""

from __future__ import annotations

from penstock.host.relation import open_relation
from penstock.plan.shown import Fact
from penstock.words import many

from ..devices import shared_device
from ..explaining import explanation, time_zone
from .join import LookupCall
from .versions import OwnSnapshot, PinnedVersion


def describe(call: LookupCall, *, extended: bool = False) -> str:
    """Describe a join as text, a fact per line."""
    plan, query = call.plan, call.plan.query
    outer, inner = plan.outer.alias, plan.inner.alias
    kind = "streaming DataFrame" if call.is_streaming else "DataFrame"
    lines: list[Fact] = [
        ("join", f"{query.kind.value.lower()} of {query.left.alias} and {query.right.alias}"),
        ("", f"{outer} is a {kind}, {inner} a relation, whose rows are looked up"),
        time_zone(query),
    ]
    lines += _relation(call)
    if plan.sought_keys is not None:
        lines.append(("path", f"key: pages are found by {plan.keys_text}"))
    else:
        lines.append(("path", "scan: rows of a task meet all pages that may hold a match"))
    lines.append(("version", _version(call)))
    lines.append(("tasks", _tasks(call)))
    return explanation(query, lines, call.task.device, extended=extended)


def _relation(call: LookupCall) -> list[Fact]:
    options = call.task.options
    stored = open_relation(call.task.relation.location)
    try:
        order = f"ordered by a hash of {', '.join(stored.key)}"
        if stored.cluster:
            order = f"clustered by {', '.join(stored.cluster)}"
        number = call.task.relation.version or stored.newest()
        join = call.task.new(stored, number, shared_device("cpu"))
        version, split = join.version, join.split
        return [
            ("relation", f"{stored.name}, {order}"),
            (
                "",
                f"{many(version.rows, 'row')}, {many(len(version.index), 'page')}, "
                f"{version.bytes:,} bytes",
            ),
            (
                "memory",
                f"{options.memory_bytes:,} bytes per task: {split.index:,} for the index, "
                f"{split.pages:,} for pages, {split.cache:,} for rows that are kept, "
                f"{split.rows:,} for rows that wait",
            ),
            ("algorithm", str(options.algorithm)),
        ]
    finally:
        stored.close()


def _version(call: LookupCall) -> str:
    versions = call.task.versions
    if isinstance(versions, OwnSnapshot):
        return "none: each task meets the rows of its own moment, also where Spark repeats it"
    if not isinstance(versions, PinnedVersion):
        why = "the newest one at the time of the call"
        if call.task.relation.version is not None:
            why = "as the query says"
        return f"{versions.number} for all rows, {why}"
    if versions.number is not None:
        start = "that of the start" if call.task.relation.version is None else "as the query says"
        which = f"{versions.number}, {start}"
    else:
        which = "the newest one when the first task of a micro-batch begins"
    where = versions.pins or versions.location
    return f"{which}; pinned in {where}/pins/<query id>/<batch>"


def _tasks(call: LookupCall) -> str:
    place = call.place
    if place.lanes is None:
        where = "one per partition of the DataFrame, whose rows stay where they are"
    elif place.has_arcs:
        where = f"{place.lanes}, each with the rows whose keys lie in its arc of the hash"
    else:
        where = f"{place.lanes}, each with a share of the rows"
    return f"{where}; {place.why}"
