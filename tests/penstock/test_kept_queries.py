import datetime
import gc
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from weakref import ref

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.api import around
from penstock.around import splitting
from penstock.errors import BeyondError, QueryError
from penstock.query import options
from penstock.query.compiler import compile_query
from penstock.query.options import MOST_CHARACTERS, KeptQueries, QueryOptions, key_of
from penstock.uses import UnusedError

SCHEMA = pa.schema([("id", pa.int32()), ("t", pa.int64()), ("x", pa.int32())])
SCHEMAS = {"l": SCHEMA, "r": SCHEMA}
TIME = {"l": "t", "r": "t"}
QUERY = "SELECT l.id AS i, r.id AS j FROM l JOIN r ON r.t BETWEEN l.t - 5 AND l.t + 5 AND l.x < :n"


def compiled(text: str = QUERY.replace(":n", "n"), schemas=SCHEMAS, **options):
    return compile_query(
        text, schemas, QueryOptions(**{"time": TIME, "params": {"n": 3}} | options)
    )


def test_the_same_query_is_compiled_once():
    assert compiled() is compiled()
    again = {name: pa.schema(list(schema)) for name, schema in SCHEMAS.items()}
    assert compiled(schemas=again) is compiled()
    assert compiled(params={"n": 3}, time=dict(TIME)) is compiled()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, True),
        (1, 1.0),
        (0.5, Decimal("0.50")),
        (Decimal("1.0"), Decimal("1.00")),
        (1, "1"),
        (
            datetime.datetime(2020, 1, 1, 12),
            datetime.datetime(2020, 1, 1, 12, tzinfo=datetime.UTC),
        ),
        (None, 0),
    ],
)
def test_equal_parameters_of_other_types_are_other_queries(one, other):
    keys = [key_of(QUERY, SCHEMAS, QueryOptions(params={"n": own})) for own in (one, other)]
    assert None not in keys
    assert keys[0] != keys[1]


@pytest.mark.parametrize(
    "other",
    [
        {"text": QUERY.replace(":n", "4")},
        {"time": {"l": "t:s", "r": "t:s"}},
        {"time": {"r": "t", "l": "t"}},
        {"within": 3},
        {"within": datetime.timedelta(3)},
        {"rows": 3},
        {"rows": {"l": 3, "r": 3}},
        {"scale": {"l.x": 2}},
        {"unique": {"l": "id"}},
        {"unique": {"l": ["id", "t"]}},
        {"time_zone": "Europe/Dublin"},
        {"params": {"m": 3}},
        {"schemas": {"r": SCHEMA, "l": SCHEMA}},
        {"schemas": {"l": SCHEMA, "r": SCHEMA.append(pa.field("y", pa.int8()))}},
        {"schemas": {"l": SCHEMA, "r": SCHEMA.set(2, pa.field("x", pa.int64()))}},
        {"schemas": {"l": SCHEMA, "r": SCHEMA.set(2, pa.field("x", pa.int32(), nullable=False))}},
    ],
)
def test_whatever_differs_is_another_query(other):
    def key(text=QUERY, schemas=SCHEMAS, **options):
        return key_of(text, schemas, QueryOptions(**{"time": TIME, "params": {"n": 3}} | options))

    assert key(**other) != key()
    assert key(**other) == key(**other)


def test_options_that_change_later_change_no_query():
    params, unique = {"n": 3}, {"l": ["id"]}
    first = compiled(params=params, unique=unique)
    params["n"] = 4
    unique["l"].append("t")
    assert compiled(params=params) is not first
    assert compiled(unique={"l": ["id"]}) is first
    assert compiled(params={"n": 4}, unique={"l": ["id", "t"]}) is not first


def test_results_follow_the_parameters():
    table = pa.table({"id": [1, 2], "t": [1, 2], "x": [1, 2]}, schema=SCHEMA)
    for n, rows in [(2, 2), (3, 4), (True, None), (2, 2), (1.5, 2), (1, 0)]:
        tables, params = {"l": table, "r": table}, {"n": n}
        if rows is None:
            schemas = {name: own.schema for name, own in tables.items()}
            with pytest.raises(QueryError):
                compile_query(QUERY.replace(":n", "n"), schemas, time=TIME, params=params)
        else:
            found = penstock.sql(QUERY.replace(":n", "n"), tables, time=TIME, params=params)
            assert found.num_rows == rows


def test_errors_are_not_kept():
    for _ in range(2):
        with pytest.raises(QueryError, match="unknown column or parameter n"):
            compiled(params=None)


def count_splits(monkeypatch) -> list[str]:
    """Make the list to which each split of a query into parts adds its text."""
    texts: list[str] = []

    def split(text, *args, **keywords):
        texts.append(text)
        return splitting.split(text, *args, **keywords)

    monkeypatch.setattr(around, "split", split)
    monkeypatch.setattr(around, "_kept", KeptQueries())
    return texts


def test_a_join_without_a_window_is_split_once(monkeypatch):
    texts = count_splits(monkeypatch)
    text = "SELECT l.id AS i, r.id AS j FROM l JOIN r ON abs(l.x - r.x) < 2 AND l.id <> r.id"
    for count in (3, 0, 5):
        ids = pa.array(range(count), pa.int32())
        one = pa.table({"id": ids, "t": ids.cast("int64"), "x": ids}, schema=SCHEMA)
        rows = penstock.sql(text, {"l": one, "r": one}).to_pylist()
        near = [{"i": i, "j": j} for i in range(count) for j in range(count) if abs(i - j) == 1]
        assert sorted(rows, key=lambda row: (row["i"], row["j"])) == near
    assert texts == [text]
    with pytest.raises(UnusedError, match="memory_bytes"):
        penstock.sql(text, {"l": one, "r": one}, memory_bytes=1 << 30)
    other = pa.table({"id": [1.5], "x": [1]})
    assert penstock.sql(text, {"l": other, "r": other}).num_rows == 0
    assert len(texts) == 2


def test_a_query_that_duckdb_runs_is_split_once(monkeypatch):
    texts = count_splits(monkeypatch)
    columns = {"id": pa.array([1, 2], pa.int32()), "t": [1, 2], "x": pa.array([1, 2], pa.int32())}
    tables = dict.fromkeys("lr", pa.table(columns, schema=SCHEMA))
    for splits, value in enumerate(("l.id", "count(*)", "hypot(l.x, r.x)"), 1):
        text = f"SELECT {value} AS v FROM l JOIN r ON l.id = r.id"
        first, again = penstock.sql(text, tables), penstock.sql(text, tables)
        assert first.equals(again)
        assert first.schema == again.schema
        assert len(texts) == splits


@pytest.mark.parametrize("key", ["id", "id + 0"])
def test_what_depends_on_rows_is_split_again_for_rows_that_choose_another_engine(monkeypatch, key):
    texts = count_splits(monkeypatch)
    text = f"SELECT l.t, r.x FROM l JOIN r ON l.{key} = r.id AND l.x < r.x"

    def tables(rows: int, keys: int) -> dict[str, pa.Table]:
        ids, x = np.arange(rows) % keys, np.arange(rows) % 3
        columns = {"id": ids.astype(np.int32), "t": np.arange(rows), "x": x.astype(np.int32)}
        return {name: pa.table(columns, schema=SCHEMA) for name in "lr"}

    few, many = tables(9_000, 9_000), tables(9_000, 4)
    # The same tables; others that leave the same choice; few pairs; an empty one.
    for given, splits in (
        (few, 1),
        (few, 1),
        (tables(9_500, 9_400), 1),
        (many, 2),
        (tables(9_100, 4), 2),
        (few, 3),
        ({**tables(17_000, 17_000), "l": few["l"][:0]}, 3),
        (tables(30, 3), 4),
    ):
        rows = penstock.sql(text, given)
        with duckdb.connect() as engine:
            for name, table in given.items():
                engine.register(name, table)
            total = engine.sql(f"SELECT count(*), sum(t), sum(x) FROM ({text})").fetchall()
        sums = (pc.sum(rows[name]).as_py() for name in "tx")
        assert total == [(rows.num_rows, *sums)]
        assert len(texts) == splits


def test_tables_of_kept_splits_are_not_kept_alive(monkeypatch):
    count_splits(monkeypatch)
    ids = np.arange(9_000, dtype=np.int32)
    text = "SELECT l.x FROM l JOIN r ON l.id = r.id AND l.x < r.x"
    columns = {"id": ids, "t": ids.astype(np.int64), "x": ids}
    for _ in range(2):  # a split that is made, and one that is kept
        table = pa.table(columns, schema=SCHEMA)
        penstock.sql(text, {"l": table, "r": table})
        gone = ref(table)
        del table
        gc.collect()
        assert gone() is None


def test_functions_of_a_query_are_not_those_of_the_next_one_in_its_database():
    table = pa.table({"id": [1, 2], "t": [3, 4], "x": [5, 6]}, schema=SCHEMA)
    for n in (1, 2, 1, 3):
        text = f"SELECT power(l.x, {n}) AS v FROM l JOIN r ON l.id = r.id"
        rows = penstock.sql(text, {"l": table, "r": table})
        assert rows["v"].to_pylist() == [5.0**n, 6.0**n]


def test_the_reason_for_parts_is_kept_without_traceback():
    queries, made = KeptQueries(), []

    def beyond():
        made.append(1)
        raise BeyondError("more than one join")

    for _ in range(3):
        with pytest.raises(BeyondError, match="more than one join") as caught:
            queries.find("a", beyond)
    assert len(made) == 1
    assert len(caught.traceback) == 2
    with pytest.raises(QueryError):
        queries.find(None, beyond)
    assert len(made) == 2


def test_a_parameter_without_meaning_is_none_of_the_keys():
    strange = {"n": 3, "m": object()}
    assert key_of(QUERY, SCHEMAS, QueryOptions(params=strange)) is None
    assert compiled(params=strange) == compiled()


def test_long_queries_are_not_kept():
    text = QUERY.replace(":n", "4") + " " * MOST_CHARACTERS
    assert key_of(text, SCHEMAS, QueryOptions(time=TIME)) is None
    assert compiled(text) is not compiled(text)


def test_names_of_any_class_of_sequence():
    class Names(Sequence[str]):
        __hash__ = None  # pyright: ignore[reportAssignmentType]

        def __getitem__(self, index):
            return ("id", "t")[index]

        def __len__(self) -> int:
            return 2

        def __iter__(self) -> Iterator[str]:
            return iter(("id", "t"))

    assert key_of(QUERY, SCHEMAS, QueryOptions(unique={"l": Names()})) is None
    assert compiled(unique={"l": Names()}) == compiled(unique={"l": ["id", "t"]})


@pytest.mark.parametrize(
    ("name", "most", "characters"), [("MOST_QUERIES", 2, 0), ("MOST_CHARACTERS", 20, 10)]
)
def test_the_query_used_longest_ago_goes(monkeypatch, name, most, characters):
    monkeypatch.setattr(options, name, most)
    queries, made = KeptQueries(), []

    def find(key):
        def compiling():
            made.append(key)
            return compiled()

        return queries.find(key, compiling, characters)

    for key in "abacab":
        find(key)
    assert "".join(made) == "abcb"


def test_threads_share_compiled_queries():
    barrier = threading.Barrier(8)

    def run(k: int):
        barrier.wait()
        return [compiled(params={"n": n}) for n in range(20)]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(run, range(8)))
    assert all(own == found[0] for own in found)
