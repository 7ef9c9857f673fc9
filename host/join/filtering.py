"""Plans for predicates that a device cannot test: it finds candidates by search keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from penstock.plan.band import BandForm
from penstock.plan.forms import JoinForm
from penstock.plan.plan import JoinPlan, Output
from penstock.plan.query import LEFT, RIGHT, JoinQuery, other

from ..device.base import Device
from ..keys.prepare import layout, program_keys, stream_values, window_keys
from ..rows.columns import load


def with_filter(
    plan: JoinPlan, schemas: Mapping[str, pa.Schema], devices: Sequence[Device]
) -> JoinPlan:
    """Return the plan that these devices can run.

    If one cannot test the predicate, bands filter for it, and the host tests the pairs found.

    Parameters
    ----------
    schemas : mapping of side to pyarrow.Schema
        Schemas of the base tables.
    """
    remote = [device for device in devices if not device.runs_here]
    if not remote or plan.output is Output.FOLDS:
        return plan
    forms = [one.form for one in plan.candidates()]
    if any(isinstance(form.form, BandForm) for form in forms):
        return plan
    for form in forms:
        program = _program(plan.query, form, schemas, remote)
        if any(device.refuses(program) is not None for device in remote):
            return replace(plan, query=replace(plan.query, tests_pairs=True))
    return plan


def _program(
    query: JoinQuery, form: JoinForm, schemas: Mapping[str, pa.Schema], devices: Sequence[Device]
):
    """Return the program of a form over no rows: keys with their types and least widths."""
    columns = {}
    for side in (LEFT, RIGHT):
        names = query.columns_of(side)
        vectors = load(schemas[side].empty_table(), names, query.scale_of(side), side)
        columns |= {(side, name): vector for name, vector in vectors.items()}
    window = {key: v for key, v in columns.items() if key[0] == form.window}
    stream = {key: v for key, v in columns.items() if key[0] == other(form.window)}
    keys = window_keys(form, window, 0)[: program_keys(form)]
    return layout(form, keys, stream_values(form, stream, 0), devices[0].key_widths).program
