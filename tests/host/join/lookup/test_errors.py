"""What a lookup join refuses, in messages that name what is wrong, where, and what to do."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.errors import FileError, QueryError, SchemaError, UsageError
from penstock.host.relation import RelationOptions, build, open_relation
from tests.host.join.lookup.cases import ALGORITHMS, damaged

ROWS = 400
STORED = pa.table(
    {
        "k": pa.array(range(ROWS), pa.int64()),
        "rid": pa.array(range(ROWS), pa.int64()),
        "payload": ["x" * 50] * ROWS,
    }
)
ON = "o.k = c.k"
QUERY = f"SELECT o.id, c.rid FROM o JOIN c ON {ON}"


def orders(first: int, end: int) -> pa.Table:
    numbers = pa.array(range(first, end), pa.int64())
    return pa.table({"k": numbers, "id": numbers})


SCHEMA = orders(0, 0).schema


@pytest.fixture
def location(tmp_path: Path) -> str:
    place = str(tmp_path / "c.rel")
    build(STORED, place, RelationOptions(key=("k",), page_bytes=512)).close()
    return place


def opened(location: str, latency_s: float = 0.0, query: str = QUERY, **options: Any) -> Any:
    schemas = {"o": SCHEMA, "c": penstock.relation(location, **options)}
    return penstock.stream(query, schemas, flow=penstock.Flow(latency_s=latency_s))


def answer(stream: Any, batch: pa.Table) -> None:
    stream.push("o", batch)
    stream.flush()


def ids(rows: pa.Table) -> Counter:
    return Counter(rows["id"].to_pylist())


# -- what cannot be asked -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda stream: stream.register("o", "north"), "register"),
        (lambda stream: stream.deregister("o", "north"), "deregister"),
        (lambda stream: stream.advance("o", 1), "advance"),
        (lambda stream: stream.push("o", orders(0, 1), feed="north"), "feed='north'"),
        (lambda stream: stream.pushed("o", "north"), "feed='north'"),
    ],
)
def test_rows_have_no_time_that_a_feed_could_promise(location, call, named):
    with opened(location) as stream:
        with pytest.raises(UsageError, match=f"has no window, .*; leave {named} out"):
            call(stream)
        assert (stream.failures(), stream.parked(), stream.pushed("o")) == ({}, [], 0)


@pytest.mark.parametrize("join", ["FULL JOIN", "RIGHT JOIN"])
def test_the_relation_cannot_be_preserved(location, join):
    query = f"SELECT o.id, c.rid FROM o {join} c ON {ON}"
    with pytest.raises(QueryError, match="known only once o has ended; preserve o instead"):
        opened(location, query=query)


def test_the_relation_cannot_be_preserved_on_the_left(location):
    with pytest.raises(QueryError, match="preserve o instead"):
        opened(location, query=f"SELECT o.id, c.rid FROM c LEFT JOIN o ON {ON}")
    for join in ("LEFT SEMI", "LEFT ANTI"):
        with pytest.raises(QueryError, match="write o on the left"):
            opened(location, query=f"SELECT c.rid FROM c {join} JOIN o ON {ON}")


def test_groups_of_the_relation(location):
    with pytest.raises(QueryError, match="add the event time to GROUP BY"):
        opened(location, query=f"SELECT c.rid, count(*) FROM o JOIN c ON {ON} GROUP BY c.rid")


def test_both_sides_are_the_relation(location):
    with pytest.raises(QueryError, match="both inputs are the relation c"):
        opened(location, query="SELECT a.rid FROM c a JOIN c b ON a.k = b.k")


def test_two_relations(location):
    two = {"o": penstock.relation(location), "c": penstock.relation(location)}
    for call in (penstock.sql, penstock.stream):
        with pytest.raises(QueryError, match=r"o and c are relations, and a join looks up one; "):
            call("SELECT o.rid FROM o JOIN c ON o.k = c.k", two)


def test_rows_of_a_window(location):
    tables = {"o": orders(0, 3), "c": penstock.relation(location)}
    with pytest.raises(QueryError, match=r"o has ROWS, but .*leave it out"):
        penstock.sql(f"SELECT o.id FROM o [ROWS 5], c WHERE {ON}", tables)


@pytest.mark.parametrize("memory", [0, 1, 100_000])
def test_too_little_memory_says_the_least_and_the_least_is_enough(location, memory):
    tables = {"o": orders(0, ROWS), "c": penstock.relation(location)}
    with pytest.raises(UsageError, match=rf"memory_bytes is {memory:,}, .* needs") as refusal:
        penstock.sql(QUERY, tables, memory_bytes=memory)
    said = re.search(r"needs ([\d,]+) at least", str(refusal.value))
    assert said
    least = int(said[1].replace(",", ""))
    assert penstock.sql(QUERY, tables, memory_bytes=least).num_rows == ROWS
    with pytest.raises(UsageError, match=rf"memory_bytes is {least - 1:,}"):
        penstock.sql(QUERY, tables, memory_bytes=least - 1)


@pytest.mark.parametrize("memory", [-1, 1.5, "128MB", True])
def test_memory_of_another_kind(location, memory):
    tables = {"o": orders(0, 3), "c": penstock.relation(location)}
    with pytest.raises(UsageError, match="memory_bytes must be"):
        penstock.sql(QUERY, tables, memory_bytes=memory)


def test_options_of_a_relation(location):
    with pytest.raises(UsageError, match="algorithm is one of auto, meshjoin"):
        penstock.relation(location, algorithm="lru")
    with pytest.raises(UsageError, match="refresh is 'batch' or 'start', not 'row'"):
        penstock.relation(location, refresh="row")


def test_there_is_no_relation(tmp_path):
    with pytest.raises(FileError, match=r"no relation at .*nowhere: .*build one with"):
        opened(str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("stored", "given"),
    [
        (pa.array([1]), pa.array([Decimal("1.00"), Decimal("1.25")])),
        (pa.array([1.5], pa.float32()), pa.array([1.5, 1.1])),
        (pa.array([1.5]), pa.array([1.5, 1.1], pa.float32())),
        (pa.array([1.0]), pa.array([1, 2])),
        (
            pa.array([Decimal("1.50")], pa.decimal128(9, 2)),
            pa.array([Decimal("1.500"), Decimal("1.501")], pa.decimal128(9, 3)),
        ),
        (
            pa.array([1500], pa.timestamp("us")),
            pa.array([1_500_000, 1_500_001], pa.timestamp("ns")),
        ),
    ],
    ids=["decimal", "single", "double", "integer", "scale", "unit"],
)
def test_a_key_of_another_type_with_the_same_value(tmp_path, stored, given):
    place = str(tmp_path / "c.rel")
    build(pa.table({"k": stored, "rid": [1]}), place, RelationOptions(key=("k",))).close()
    tables: dict[str, Any] = {
        "o": pa.table({"k": given, "id": [7, 8]}),
        "c": penstock.relation(place),
    }
    assert penstock.sql(QUERY, tables).to_pylist() == [{"id": 7, "rid": 1}]


def test_a_key_of_another_type_and_the_remedy(tmp_path):
    place = str(tmp_path / "c.rel")
    build(pa.table({"k": [1], "rid": [1]}), place, RelationOptions(key=("k",))).close()
    tables: dict[str, Any] = {
        "o": pa.table({"k": [1.0], "id": [7]}),
        "c": penstock.relation(place),
    }
    with pytest.raises(QueryError, match=r"c\.k, a key of the relation, .*CAST the side of o"):
        penstock.sql(QUERY, tables)
    found = penstock.sql(QUERY.replace("o.k", "CAST(o.k AS BIGINT)"), tables)
    assert found.to_pylist() == [{"id": 7, "rid": 1}]


# -- pushes ---------------------------------------------------------------------------------------


def test_pushes_that_are_refused_take_nothing(location):
    stream = opened(location)
    with pytest.raises(UsageError, match=r"c is the relation, .*push rows of o"):
        stream.push("c", STORED)
    with pytest.raises(UsageError, match="no source x; push rows of o"):
        stream.push("x", orders(0, 3))
    with pytest.raises(SchemaError, match="no column k"):
        stream.push("o", orders(0, 3).drop(["k"]))
    wrong = orders(0, 3).set_column(0, "k", pa.array([0.5] * 3))
    with pytest.raises(SchemaError, match=r"column k of a batch of o is double, .*int64"):
        stream.push("o", wrong)
    with pytest.raises(UsageError, match=r"a batch of .* must be"):
        stream.push("o", [1])
    assert stream.pushed("o") == 0
    stream.push("O", orders(0, 3))
    assert stream.pushed("o") == 1
    assert ids(stream.close()) == Counter(range(3))


def test_a_closed_stream(location):
    stream = opened(location, latency_s=60.0)
    stream.push("o", orders(0, 3))
    assert ids(stream.close()) == Counter(range(3))
    assert stream.close().num_rows == 0
    assert stream.poll().num_rows == 0
    with pytest.raises(UsageError, match="the stream is closed; open a new one"):
        stream.push("o", orders(0, 3))
    assert stream.report().rows == 3


# -- damage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("latency_s", [0.0, 60.0])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_rows_outlive_a_damaged_page(location, algorithm, latency_s):
    stream = opened(location, latency_s, algorithm=algorithm)
    stream.push("o", orders(0, 20))
    file, good = damaged(location)
    message = r"c\.rel/data/.*page \d+ is not what was written.*relation check .*c\.rel.*restore"
    with pytest.raises(FileError, match=message):
        answer(stream, orders(20, 200))
    if stream.pushed("o") == 2:
        with pytest.raises(FileError, match=message):
            answer(stream, orders(200, 300))
    file.write_bytes(good[: len(good) // 2])
    with pytest.raises(FileError, match=r"truncated: it ends at byte .*restore"):
        stream.flush()
    file.write_bytes(good)
    stream.flush()
    assert stream.pushed("o") == 3
    assert ids(stream.close()) == Counter(range(300))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_rows_outlive_damage_across_versions(location, algorithm):
    relation = open_relation(location)
    stream = opened(location, 60.0, algorithm=algorithm)
    stream.push("o", orders(0, 200))
    file, good = damaged(location)
    relation.append(pa.table({"k": [5], "rid": [999], "payload": [""]}), compact=False)
    with pytest.raises(FileError, match="is not what was written"):
        answer(stream, orders(0, 10))
    file.write_bytes(good)
    for _ in range(2 - stream.pushed("o")):
        stream.push("o", orders(0, 10))
    found = Counter(zip(*stream.close().to_pydict().values(), strict=True))
    relation.close()
    assert found == Counter((n, n) for n in range(200)) + Counter(
        [*((n, n) for n in range(10)), (5, 999)]
    )


def test_rows_joined_before_the_damage_can_be_polled(location):
    stream = opened(location)
    stream.push("o", orders(0, 20))
    damaged(location)
    with pytest.raises(FileError, match="is not what was written"):
        stream.push("o", orders(20, 200))
    assert ids(stream.poll()) == Counter(range(20))


def test_a_file_that_is_restored_from_a_backup_is_read(location, tmp_path):
    stream = opened(location)
    file, good = damaged(location)
    with pytest.raises(FileError, match="is not what was written"):
        stream.push("o", orders(0, 20))
    backup = tmp_path / "backup"
    backup.write_bytes(good)
    backup.rename(file)
    assert ids(stream.close()) == Counter(range(20))


def test_a_version_in_use_outlives_vacuum(location):
    relation = open_relation(location)
    stream = opened(location, 60.0)
    stream.push("o", orders(0, 20))
    relation.update(pa.table({"k": [5], "rid": [999], "payload": [""]}), compact=False)
    relation.compact()
    relation.vacuum(keep=1)
    relation.close()
    # The rows that wait meet the version with which they came: its files are open.
    found = stream.close()
    assert Counter(zip(*found.to_pydict().values(), strict=True)) == Counter(
        (n, n) for n in range(20)
    )


def built_anew(location: str, changed: str) -> None:
    shutil.rmtree(location)
    other = {
        "rows": STORED.set_column(1, "rid", pa.array(range(ROWS, 2 * ROWS), pa.int64())),
        "key": STORED.select(["rid", "k", "payload"]),
        "type": STORED.set_column(0, "k", pa.array(map(str, range(ROWS)))),
        "column": STORED.drop(["rid"]),
    }[changed]
    key = ("rid",) if changed == "key" else ("k",)
    build(other, location, RelationOptions(key=key, page_bytes=512)).close()


CHANGED = pytest.mark.parametrize("changed", ["rows", "key", "type", "column"])


@CHANGED
def test_the_relation_is_built_anew_and_updated(location, changed):
    stream = opened(location)
    stream.push("o", orders(0, 20))
    built_anew(location, changed)
    relation = open_relation(location)
    relation.append(relation_rows(location))
    relation.close()
    with pytest.raises(FileError, match=r"c\.rel was built .* since it was opened; open it again"):
        stream.push("o", orders(20, 40))


def relation_rows(location: str) -> pa.Table:
    """A row of the relation that is there now."""
    relation = open_relation(location)
    row = relation.version().read(np.array([0]), relation.schema.names).batch.slice(0, 1)
    relation.close()
    return pa.Table.from_batches([row])


@CHANGED
def test_the_relation_is_built_anew(location, changed):
    stream = opened(location)
    stream.push("o", orders(0, 20))
    built_anew(location, changed)
    with pytest.raises(FileError, match=r"c\.rel was built .* since it was opened; open it again"):
        stream.push("o", orders(20, 40))


def test_the_folder_is_gone(location):
    stream = opened(location)
    stream.push("o", orders(0, 20))
    aside = location + ".aside"
    shutil.move(location, aside)
    with pytest.raises(FileError, match=r"c\.rel") as error:
        answer(stream, orders(20, 40))
    assert any(word in str(error.value) for word in ("restore", "backup", "build"))
    shutil.move(aside, location)
    for _ in range(2 - stream.pushed("o")):
        stream.push("o", orders(20, 40))
    assert ids(stream.close()) == Counter(range(40))


@pytest.mark.parametrize("content", [b"", b"{}", b"not json"])
def test_a_version_record_is_damaged(location, content):
    relation = open_relation(location)
    stream = opened(location)
    stream.push("o", orders(0, 20))
    relation.append(pa.table({"k": [5], "rid": [999], "payload": [""]}), compact=False)
    relation.close()
    file = max(Path(location, "versions").iterdir())
    good = file.read_bytes()
    file.write_bytes(content)
    with pytest.raises(FileError, match=r"c\.rel"):
        stream.push("o", orders(0, 20))
    file.write_bytes(good)
    for _ in range(2 - stream.pushed("o")):
        stream.push("o", orders(0, 20))
    assert stream.close().num_rows == 41


# -- no errors ------------------------------------------------------------------------------------


def test_null_keys_are_counted(location):
    stream = opened(location)
    stream.push("o", pa.table({"k": pa.array([None, 1, None], pa.int64()), "id": [1, 2, 3]}))
    assert stream.report().lookup.null_keys == 2
    assert ids(stream.close()) == Counter([2])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_empty_relation(tmp_path, algorithm):
    place = str(tmp_path / "c.rel")
    build(STORED.slice(0, 0), place, RelationOptions(key=("k",))).close()
    assert opened(place, algorithm=algorithm).close().num_rows == 0
    stream = opened(place, algorithm=algorithm, query=QUERY.replace("JOIN", "LEFT JOIN"))
    for _ in range(3):
        stream.push("o", orders(0, 20))
    assert ids(stream.close()) == Counter([*range(20)] * 3)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_row_that_is_longer_than_the_memory_for_pages(tmp_path, algorithm):
    place = str(tmp_path / "c.rel")
    rows = pa.table({"k": [1, 2, 3], "rid": [1, 2, 3], "payload": ["x", "y" * 1_000_000, "z"]})
    build(rows, place, RelationOptions(key=("k",), page_bytes=256)).close()
    query = f"SELECT o.id, c.payload FROM o JOIN c ON {ON}"
    tables = {"o": orders(0, 5), "c": penstock.relation(place, algorithm=algorithm)}
    found = penstock.sql(query, tables, memory_bytes=400_000)
    assert Counter(map(len, found["payload"].to_pylist())) == Counter([1, 1_000_000, 1])


# -- what does not work yet -----------------------------------------------------------------------


@pytest.fixture
def pair_of_keys(tmp_path) -> dict[str, Any]:
    place = str(tmp_path / "pair.rel")
    rows = pa.table({"k": [1, 1, 2], "b": [3, 4, 3], "rid": [1, 2, 3]})
    build(rows, place, RelationOptions(key=("k", "b"))).close()
    return {"o": orders(0, 5), "c": penstock.relation(place)}


@pytest.mark.parametrize("join", ["JOIN", "LEFT JOIN"])
def test_a_constant_for_a_key_column(pair_of_keys, join):
    query = f"SELECT o.id, c.rid FROM o {join} c ON {ON} AND c.b = 3"
    found = Counter(zip(*penstock.sql(query, pair_of_keys).to_pydict().values(), strict=True))
    rest = [(n, None) for n in (0, 3, 4)] if join == "LEFT JOIN" else []
    assert found == Counter([(1, 1), (2, 3), *rest])


def test_a_condition_that_is_never_true(location):
    stream = opened(location, query=f"SELECT o.id FROM o LEFT ANTI JOIN c ON {ON} AND FALSE")
    stream.push("o", orders(0, 3))
    assert ids(stream.close()) == Counter(range(3))


def test_the_relation_grows_while_a_stream_runs(location):
    def least(memory: int) -> Any:
        schemas = {"o": SCHEMA, "c": penstock.relation(location)}
        return penstock.stream(QUERY, schemas, flow=penstock.Flow(memory_bytes=memory))

    with pytest.raises(UsageError) as refusal:
        least(1)
    said = re.search(r"needs ([\d,]+) at least", str(refusal.value))
    assert said
    stream = least(int(said[1].replace(",", "")))
    more = STORED.set_column(0, "k", pa.array(range(ROWS, 2 * ROWS), pa.int64()))
    relation = open_relation(location)
    relation.append(more)
    relation.compact()
    relation.close()
    stream.push("o", orders(0, 20))
    assert ids(stream.close()) == Counter(range(20))


def test_ordered(location):
    ordered = penstock.Running(ordered=True)
    tables = {"o": orders(0, 50), "c": penstock.relation(location)}
    assert penstock.sql(QUERY, tables, running=ordered)["id"].to_pylist() == list(range(50))


def test_a_location_of_another_kind():
    with pytest.raises(UsageError, match="location"):
        penstock.relation(5)  # pyright: ignore[reportArgumentType]
