"""Random updates of random relations, beside a plain list of rows."""

from __future__ import annotations

import tempfile
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.host.relation import FolderRelation, RelationOptions, build, open_relation
from tests.host.relation.model import Model, check_version
from tests.kit.effort import examples

KEYS = {
    "int": (pa.int64(), st.integers(0, 12)),
    "small": (pa.int16(), st.integers(-6, 6)),
    "float": (pa.float64(), st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf"), -2.0])),
    "text": (pa.string(), st.sampled_from(["", "a", "b", "ab", "a" * 9, "ä"])),
    "bytes": (pa.binary(), st.sampled_from([b"", b"\0", b"\0\0", b"x"])),
    "decimal": (pa.decimal128(12, 2), st.integers(-4, 4).map(lambda n: Decimal(n) / 4)),
    "wide": (pa.decimal128(38, 0), st.integers(-3, 3).map(lambda n: Decimal(n * 10**30))),
    "time": (pa.timestamp("us", "UTC"), st.integers(0, 8)),
    "date": (pa.date32(), st.integers(0, 8)),
    "bool": (pa.bool_(), st.booleans()),
}


@st.composite
def rows_of(draw, schema, kinds, most, *, known=False):
    count = draw(st.integers(0, most))
    columns = []
    for field, kind in zip(schema, kinds, strict=True):
        values = KEYS[kind][1] if known else st.none() | KEYS[kind][1]
        columns.append(pa.array(draw(st.lists(values, min_size=count, max_size=count)), field.type))
    payload = [draw(st.none() | st.text("xyz", max_size=30)) for _ in range(count)]
    number = [draw(st.none() | st.integers(-5, 5)) for _ in range(count)]
    full = [*schema, pa.field("payload", pa.string()), pa.field("number", pa.int32())]
    return pa.table([*columns, payload, pa.array(number, pa.int32())], schema=pa.schema(full))


@st.composite
def histories(draw):
    kinds = draw(st.lists(st.sampled_from(sorted(KEYS)), min_size=1, max_size=2))
    schema = pa.schema([pa.field(f"k{n}", KEYS[kind][0]) for n, kind in enumerate(kinds)])
    first = draw(rows_of(schema, kinds, 60))
    steps = []
    for _ in range(draw(st.integers(0, 5))):
        step = draw(st.sampled_from(["append", "update", "compact", "vacuum", "reopen"]))
        upserts = deletes = None
        if step == "append":
            upserts = draw(rows_of(schema, kinds, 20))
        elif step == "update":
            upserts = draw(st.none() | rows_of(schema, kinds, 20, known=True))
            deletes = draw(st.none() | rows_of(schema, kinds, 8, known=True))
        steps.append((step, upserts, deletes))
    return schema.names, first, steps


def without(deletes: pa.Table | None, upserts: pa.Table | None, key: list[str]) -> pa.Table | None:
    """Deletes of keys that are not upserted."""
    from tests.host.relation.model import row_list

    if deletes is None or upserts is None:
        return deletes
    held = set(row_list(upserts.select(key)))
    own = row_list(deletes.select(key))
    return deletes.take(pa.array([n for n, k in enumerate(own) if k not in held], pa.int64()))


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    histories(),
    st.sampled_from(["splitmix64-1", "splitmix64-1/8", "splitmix64-1/2"]),
    st.sampled_from([256, 700, 1 << 14]),
    st.booleans(),
)
def test_histories(history, hash_name, page_bytes, is_clustered):
    key, first, steps = history
    cluster = ("number",) if is_clustered else ()
    options = RelationOptions(
        key=tuple(key), cluster=cluster, page_bytes=page_bytes, hash=hash_name
    )
    with tempfile.TemporaryDirectory() as folder:
        relation = build(first, str(Path(folder, "r")), options)
        model = Model(first, tuple(key))
        check_version(relation, 1, model.newest)
        for step, upserts, deletes in steps:
            relation = apply(relation, model, key, step, upserts, deletes)
        relation.close()


def apply(
    relation: FolderRelation,
    model: Model,
    key: list[str],
    step: str,
    upserts: pa.Table | None,
    deletes: pa.Table | None,
) -> FolderRelation:
    before = relation.newest()
    if step == "reopen":
        relation.close()
        return open_relation(relation.name)
    if step == "vacuum":
        relation.vacuum(keep=2, keep_s=0)
    elif step == "compact":
        after = relation.compact()
        if after > before:
            model.versions.append(model.newest)
            assert len(relation.version().changed_since(before)) == 0
    else:
        if step == "append":
            after = relation.append(upserts, compact=False)
            rows = model.newest
            model.append(upserts)
        else:
            deletes = without(deletes, upserts, key)
            after = relation.update(upserts, deletes, compact=False)
            rows = model.newest
            model.update(upserts, deletes)
        if after == before:
            assert model.versions.pop() == rows
        else:
            check_changes(relation, model, before)
    for number in relation.numbers():
        check_version(relation, number, model.versions[number])
    assert list(relation.check()) == []
    assert relation.newest() == len(model.versions) - 1
    return relation


def check_changes(relation: FolderRelation, model: Model, before: int) -> None:
    """All keys whose rows differ are among those that changed."""
    changed = set(relation.version().changed_since(before).tolist())
    old, new = model.versions[before], model.newest
    differing = [row for row in old | new if old[row] != new[row] and model.key_of(row)]
    if differing:
        columns = list(zip(*differing, strict=True))
        arrays = {}
        for place in model.key:
            name = model.names[place]
            values = [float("nan") if v == "NaN" else v for v in columns[place]]
            arrays[name] = pa.array(values, relation.schema.field(name).type)
        hashes = relation.key_hash.of_rows(pa.table(arrays), relation.key, "rows")
        assert set(hashes.tolist()) <= changed
