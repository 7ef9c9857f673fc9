"""Explains a streaming join in words."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.plan.query import JoinQuery, other
from penstock.plan.shown import Fact, leaving_facts
from penstock.plan.window import TimeWindow

from ..explaining import explanation, subject
from ..key_choice import why_not_by_keys
from .microbatch import PAIRS_PER_SHARD
from .routing import wanted_cells
from .spec import JoinSpec


def describe(spec: JoinSpec, shards: int, *, extended: bool = False) -> str:
    """A streaming join, a fact per line.

    Parameters
    ----------
    spec : JoinSpec
    shards : int
        Most tasks of a micro-batch's output.
    """
    query = spec.query()
    facts = [*subject(query), *_disorder(query, spec), *leaving_facts(query)]
    if query.aggregation is not None and not query.is_rows:
        facts.append(("leaving", "a group with the micro-batch after which no row can change it"))
    if spec.waiting is not None:
        facts.append(("groups", "of these rows, which wait in files until theirs are complete"))
    facts += [
        ("kept rows", "in Arrow files beside the checkpoint, for all workers"),
        (
            "lanes",
            f"at most {shards} of a micro-batch, one per {PAIRS_PER_SHARD:,} pairs in the window",
        ),
        *_routing(query, spec),
        ("evaluations", "the micro-batch's rows x the rows in their windows, before pruning"),
    ]
    return explanation(query, facts, spec.device, extended=extended)


def _routing(query: JoinQuery, spec: JoinSpec) -> Iterator[Fact]:
    wanted = wanted_cells(spec)
    if wanted is None:
        why = why_not_by_keys(query, None, stepwise=True)
        why = "partitioning is rows" if why is None else why
        yield "", f"they share out the rows that probe by place, not by keys: {why}"
        return
    rules, conjunct = spec.routing, wanted.keys.text(query.names)
    assert rules is not None
    kind = (
        "cells of a hash" if wanted.keys.band is None else "ranges, by quantiles of the first rows"
    )
    yield "", f"they own keys, by {conjunct}; {rules.cells} {kind}"
    if wanted.keys.grouped is not None:
        whole = query.names[other(wanted.keys.grouped)]
        yield "", f"each lane reads all of {whole}; groups of split cells are merged"
    elif not wanted.keys.are_keys_of_groups(query):
        yield "", "groups have other keys, so lanes give parts of them, which are merged"
    if rules.least_rows:
        yield (
            "",
            f"in micro-batches of {rules.least_rows:,} new rows or more; others are cut by place",
        )
    yield (
        "",
        f"planned by {rules.planner} in each micro-batch, from exact counts, to at most "
        f"{1 + rules.tolerance:g} times the mean work",
    )


def _disorder(query: JoinQuery, spec: JoinSpec) -> Iterator[Fact]:
    unit = query.window.unit if isinstance(query.window, TimeWindow) else ""
    for side, name in query.names.items():
        span = f"{spec.disorder[side]:,} {unit}".rstrip()
        yield "late", f"rows of {name} over {span} below the largest time of earlier micro-batches"
