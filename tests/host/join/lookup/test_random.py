"""Random lookup joins beside brute force and DuckDB, as tables and as streams."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, reject, settings

import penstock
from penstock.errors import UsageError
from tests.host.join.lookup.cases import (
    UNBUILT,
    Case,
    Change,
    apply,
    cases,
    dicts,
    duck_rows,
    memory_of,
    stream_schema,
)
from tests.host.relation.model import Model, row_list
from tests.kit.effort import examples

QUIET = settings(deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


@contextmanager
def unbuilt_rejected() -> Iterator[None]:
    try:
        yield
    except UsageError as refusal:
        if UNBUILT not in str(refusal):
            raise
        reject()


def check_table(case: Case) -> None:
    """All rows as a table meet the newest version."""
    with tempfile.TemporaryDirectory() as folder:
        location = str(Path(folder, "r"))
        relation = case.build(location)
        model = Model(case.relation, case.keys)
        for step in case.steps:
            if isinstance(step, Change):
                apply(case, step, relation, model)
        relation.close()
        names = case.relation.schema.names
        wanted = case.query.rows(
            dicts(case.stream, case.stream.schema.names), dicts(model.newest, names)
        )

        def ask(memory: int | None) -> pa.Table:
            tables = {"orders": case.stream, "customers": case.source(location)}
            return penstock.sql(case.query.sql(), tables, memory_bytes=memory)

        with unbuilt_rejected():
            found = Counter(row_list(ask(memory_of(case, ask))))
        assert found == wanted, (case.query.sql(), found - wanted, wanted - found)


def check_stream(case: Case, *, duck: bool = False) -> None:
    """Rows of each push meet the version that is the newest then, or that of the start."""
    with tempfile.TemporaryDirectory() as folder:
        location = str(Path(folder, "r"))
        relation = case.build(location)
        model = Model(case.relation, case.keys)
        names = case.relation.schema.names
        wanted: Counter = Counter()
        found: Counter = Counter()
        versions: list[tuple[pa.Table, Counter]] = []

        def opened(memory: int | None) -> Any:
            flow = penstock.Flow(latency_s=case.latency_s, memory_bytes=memory)
            schemas = {"orders": stream_schema(case.kinds), "customers": case.source(location)}
            return penstock.stream(case.query.sql(), schemas, unique=case.query.unique, flow=flow)

        with unbuilt_rejected():
            stream = opened(memory_of(case, opened))
        start = model.newest
        at = 0
        for number, step in enumerate(case.steps):
            if isinstance(step, Change):
                apply(case, step, relation, model)
                continue
            batch = case.stream.slice(at, step)
            at += step
            stream.push("orders", batch)
            versions.append((batch, start if case.refresh == "start" else model.newest))
            if number % 3 == 0:
                found.update(row_list(stream.poll()))
            elif number % 3 == 1:
                stream.flush()
        found.update(row_list(stream.close()))
        relation.close()
        for batch, version in versions:
            rows = dicts(batch, batch.schema.names)
            wanted.update(case.query.rows(rows, dicts(version, names)))
        assert found == wanted, (case.query.sql(), found - wanted, wanted - found)
        if duck and case.in_duck:
            said: Counter = Counter()
            for batch, version in versions:
                said.update(duck_rows(case.query, batch, stored(version, case)))
            assert said == wanted, ("DuckDB and brute force differ", case.query.sql())


def stored(version: Counter, case: Case) -> pa.Table:
    """Rows of a version as a table."""
    rows = [
        tuple(float("nan") if value == "NaN" else value for value in row)
        for row in version.elements()
    ]
    schema = case.relation.schema
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table(
        [pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
    )


@settings(QUIET, max_examples=examples(25))
@given(cases(most=25))
def test_table(case):
    check_table(case)


@settings(QUIET, max_examples=examples(45))
@given(cases(most=25))
def test_stream(case):
    check_stream(case, duck=True)


@pytest.mark.slow
@settings(QUIET, max_examples=1500)
@given(cases(most=60))
def test_many_tables(case):
    check_table(case)


@pytest.mark.slow
@settings(QUIET, max_examples=2500)
@given(cases(most=60))
def test_many_streams(case):
    check_stream(case, duck=True)
