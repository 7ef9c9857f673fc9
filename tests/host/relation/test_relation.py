"""Relations in folders: what they take, what they give, what they refuse."""

from __future__ import annotations

import os
import shutil
import threading
from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from penstock.errors import DataError, FileError, SchemaError, UsageError
from penstock.host.relation import FolderRelation, RelationOptions, build, open_relation
from penstock.host.relation.folder.keeping import Removed
from penstock.host.relation.key_hash import NULL_HASH, KeyHash
from penstock.host.rows.columns import load
from penstock.host.rows.files import open_writer
from tests.host.relation.model import check_version, row_list

TABLE = pa.table({"id": pa.array([1, 2, 2, None, 5]), "name": ["a", "b", "c", "d", None]})


@pytest.fixture
def make(tmp_path: Path):
    def made(rows=TABLE, name="r", **options) -> FolderRelation:
        options.setdefault("key", ("id",))
        return build(rows, str(tmp_path / name), RelationOptions(**options))

    return made


def rows_of(relation: FolderRelation, number: int | None = None) -> Counter:
    version = relation.version(number)
    found = version.read(np.arange(len(version.index)), relation.schema.names)
    return Counter(row_list(found.batch))


# -- bad arguments --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs a key, by which rows are found, or columns to cluster by"),
        ({"key": ("a", "a")}, "key names a twice"),
        ({"key": ("a",), "cluster": ("b", "b")}, "cluster names b twice"),
        ({"cluster": ("a",), "unique": True}, "unique is for relations that are ordered by key"),
        ({"key": ("a",), "page_bytes": 100}, "page_bytes must be from 256 to 16,777,216, not 100"),
    ],
)
def test_options_that_make_no_sense(options, message):
    with pytest.raises(UsageError, match=message):
        RelationOptions(**options)


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (TABLE, {"key": ("x",)}, "has no column x, which key names; it has id, name"),
        (TABLE, {"cluster": ("x",)}, "has no column x, which cluster names"),
        (TABLE, {"cluster": ("name",), "key": ()}, "name is string, by which rows cannot be clus"),
        (pa.table({"id": [[1]]}), {}, r"id is list<.*, which cannot be a key"),
        (pa.table({"id": pa.nulls(1)}), {}, r"id is null, which cannot be a key"),
        (
            pa.table({"id": pa.array([b"ab"], pa.binary(2))}),
            {},
            r"id is fixed_size_binary\[2\], which cannot be a key; use a column of numbers, text",
        ),
        (pa.table([[1], [2]], names=["id", "id"]), {}, "has two columns id; rename one"),
        (pa.table({}), {}, "has no columns"),
        (
            pa.table({f"c{n}": [n] for n in range(7)}),
            {"key": (), "cluster": tuple(f"c{n}" for n in range(7))},
            "clustered by 7 columns, but pages are apart in at most 6",
        ),
    ],
)
def test_tables_that_cannot_be_stored(make, tmp_path, table, options, message):
    with pytest.raises(SchemaError, match=message):
        make(table, **options)
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_table(make):
    with pytest.raises(
        UsageError, match="of a table, a stream of Arrow batches or a file, not list"
    ):
        make([1, 2])


def test_null_where_there_is_none(make):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    table = pa.table([pa.array([1, None])], schema=schema)
    with pytest.raises(DataError, match=r"id holds NULL, but the schema of .* says that it never"):
        make(table)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"id": [1]}), r"the upserts has no column name, which .*/r has; it has id"),
        (
            pa.table({"id": ["1"], "name": ["a"]}),
            r"column id of the upserts is string, but in .* int64",
        ),
        (TABLE.append_column("x", TABLE["id"]), r"has a column x, which .*/r does not have; leave"),
        (
            TABLE,
            r"the upserts: a row has NULL in its key \(id\): {'id': None, 'name': 'd'}; rows w",
        ),
    ],
)
def test_updates_that_do_not_fit(make, table, message):
    made = make()
    there = set(Path(made.name).rglob("*"))
    with pytest.raises((SchemaError, DataError), match=message):
        made.update(table)
    assert made.newest() == 1
    assert set(Path(made.name).rglob("*")) == there


def test_a_key_is_replaced_or_removed(make):
    made = make()
    with pytest.raises(
        DataError, match="the key id = 2 is both replaced and removed by one update"
    ):
        made.update(TABLE.slice(1, 2), pa.table({"id": [7, 2]}))
    with pytest.raises(UsageError, match="vacuum keeps at least the newest version, not 0"):
        made.vacuum(keep=0)
    with pytest.raises(SchemaError, match=r"has no column x; it has id, name"):
        made.version().read(np.array([0]), ["x"])
    keyless = make(TABLE.select(["id"]), "keyless", key=(), cluster=("id",))
    with pytest.raises(UsageError, match="has no key by which rows could be replaced or removed"):
        keyless.update(TABLE)


# -- rows in, rows out ----------------------------------------------------------------------------

KEYS = {
    "integers": pa.array([3, 1, None, 3, -7]),
    "unsigned": pa.array([1, 2**64 - 1, None, 2**63, 0], pa.uint64()),
    "floats": pa.array([0.0, -0.0, float("nan"), None, 2.5]),
    "float32": pa.array([0.0, -0.0, float("nan"), None, 2.5], pa.float32()),
    "text": pa.array(["", "a", None, "ä" * 40, "a"]),
    "large_text": pa.array(["", "a", None, "b", "a"], pa.large_string()),
    "views": pa.array(["", "a", None, "b" * 20, "a"], pa.string_view()),
    "words": pa.array(["x", "y", None, "x", "z"]).dictionary_encode(),
    "bytes": pa.array([b"", b"\0", None, b"\0\0", b"\0"]),
    "decimals": pa.array([Decimal("1.50"), None, Decimal("-9.99"), Decimal(0), Decimal(0)]),
    "wide": pa.array([Decimal(10**30), None, Decimal(-(10**30)), Decimal(1), Decimal(2)]),
    "instants": pa.array([1, 2, None, 2, 3], pa.timestamp("us", "UTC")),
    "dates": pa.array([1, 2, None, 2, 3], pa.date32()),
    "days": pa.array([86_400_000, 0, None, 0, 3 * 86_400_000], pa.date64()),
    "times": pa.array([1, 2, None, 2, 3], pa.time64("us")),
    "durations": pa.array([1, 2, None, 2, 3], pa.duration("s")),
    "booleans": pa.array([True, False, None, True, True]),
}


@pytest.mark.parametrize("kind", sorted(KEYS))
@pytest.mark.parametrize("hash_name", ["splitmix64-1", "splitmix64-1/8"])
def test_keys_of_every_type(make, kind, hash_name):
    key = KEYS[kind]
    table = pa.table({"id": key, "other": pa.array([[1], None, [], [4, 5], [6]]), "n": range(5)})
    made = make(table, hash=hash_name, page_bytes=256)
    wanted = Counter(row_list(table))
    check_version(made, 1, wanted)
    assert made.version().record.null_keys == key.null_count == 1
    gone = table.slice(4, 1)
    made.update(deletes=gone.select(["id"]), compact=False)
    held = [row for row in wanted if row[0] != row_list(gone)[0][0]]
    check_version(made, 2, Counter(held))
    made.compact()
    check_version(made, 3, Counter(held))
    assert list(made.check()) == []


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_every_nan_is_one_key_and_both_zeros_are(make, kind):
    bits = pa.array([0x7FC00001, 0xFFC00000, 0x7FC00000], pa.uint32()).to_numpy()
    nans = bits.view(np.float32).astype(kind.to_pandas_dtype())
    held = pa.array([*nans[:2], 0.0, -0.0, 1.0], kind)
    made = make(pa.table({"id": held, "n": range(5)}))
    made.update(deletes=pa.table({"id": pa.array([-0.0], kind)}), compact=False)
    assert made.version().rows == 3
    made.update(pa.table({"id": pa.array(nans[2:]), "n": [9]}), compact=False)
    assert rows_of(made) == Counter([("NaN", 9), (1.0, 4)])
    with pytest.raises(DataError, match="several rows have the key id = nan"):
        make(pa.table({"id": held, "n": range(5)}), "unique", unique=True)


def test_a_composite_key(make):
    table = pa.table({"a": [1, 1, 2, None], "b": ["x", "y", "x", "x"], "n": range(4)})
    made = make(table, key=("a", "b"))
    made.update(pa.table({"a": [1], "b": ["y"], "n": [9]}), pa.table({"b": ["x"], "a": [2]}))
    assert rows_of(made) == Counter([(1, "x", 0), (1, "y", 9), (None, "x", 3)])


@pytest.mark.parametrize("suffix", ["parquet", "csv", "arrow"])
def test_rows_of_files(make, tmp_path, suffix):
    path = tmp_path / f"t.{suffix}"
    with open_writer(path, TABLE.schema) as writer:
        for batch in TABLE.to_batches():
            writer.write_batch(batch)
    made = make(path)
    wanted = TABLE if suffix != "csv" else pacsv.read_csv(path)
    assert rows_of(made) == Counter(row_list(wanted))
    made.append(path)
    assert made.version().rows == 10


def test_rows_of_folders_and_streams(make, tmp_path):
    (tmp_path / "parts").mkdir()
    pq.write_table(TABLE, tmp_path / "parts" / "1.parquet")
    pq.write_table(TABLE, tmp_path / "parts" / "2.parquet", use_deprecated_int96_timestamps=True)
    assert make(str(tmp_path / "parts")).version().rows == 10
    reader = pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches())
    assert make(reader, "other").version().rows == 5


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "there is no file"), (b"PAR1 no", "cannot read"), (b"", "cannot read")],
)
@pytest.mark.parametrize("suffix", ["parquet", "csv", "arrow"])
def test_files_that_cannot_be_read(make, tmp_path, suffix, content, message):
    path = tmp_path / f"t.{suffix}"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises((FileError, SchemaError), match=f"{message}|has no column id"):
        make(path)


@pytest.mark.parametrize("options", [{}, {"key": (), "cluster": ("id",)}])
def test_an_empty_relation(make, options):
    made = make(TABLE.slice(0, 0), **options)
    version = made.version()
    assert (version.rows, len(version.index)) == (0, 1)
    check_version(made, 1, Counter())
    if not options:
        assert version.index.page_of(np.array([0, 5, NULL_HASH], np.uint64)).tolist() == [0, 0, 0]
    made.append(TABLE)
    check_version(made, made.newest(), Counter(row_list(TABLE)))
    assert made.append(TABLE.slice(0, 0)) == made.newest()


def test_a_row_longer_than_a_page(make):
    long = "x" * 100_000
    table = pa.table({"id": range(20), "name": [long if n % 3 else "y" for n in range(20)]})
    made = make(table, page_bytes=1024)
    check_version(made, 1, Counter(row_list(table)))
    assert len(made.version().index) >= 13


def test_all_rows_of_a_hash_share_a_page(make):
    table = pa.table({"id": np.repeat(np.arange(5), 3000), "name": ["n"] * 15000})
    made = make(table, page_bytes=256)
    assert len(made.version().index) == 5
    for n in range(5):
        page = made.version().index.page_of(hash_of(made, [n]))
        rows = made.version().read(page, ["id"])
        assert pc.all(pc.equal(rows.batch["id"], n)).as_py()
        assert rows.batch.num_rows == 3000


def hash_of(made: FolderRelation, keys: list) -> np.ndarray:
    table = pa.table(dict.fromkeys(made.key, keys))
    vectors = load(table, made.key, {}, "keys")
    return made.key_hash([vectors[name] for name in made.key], len(keys))[0]


def test_a_large_table_by_runs_on_disk(tmp_path):
    """Sorted in far less memory than the rows take, in several passes."""
    count = 60_000
    order = np.random.default_rng(2).permutation(count)
    table = pa.table({"id": order // 2, "name": [f"{n:060d}" for n in order], "x": order % 1000})
    for cluster in ((), ("x",)):
        options = RelationOptions(key=("id",), cluster=cluster, page_bytes=4096)
        path = tmp_path / f"r{len(cluster)}"
        made = build(table, str(path), options, memory_bytes=1 << 20)
        check_version(made, 1, Counter(row_list(table)))
        assert list(made.check()) == []
        if cluster:
            least, greatest = made.version().index.bounds["x"]
            # Pages are apart: each has a small part of the range.
            assert np.median(greatest - least) <= 20


def test_clusters_of_two_columns(tmp_path):
    random = np.random.default_rng(3)
    table = pa.table({"x": random.normal(size=20_000), "y": random.exponential(9e5, 20_000)})
    made = build(table, str(tmp_path / "r"), RelationOptions(cluster=("x", "y"), page_bytes=2048))
    assert made.found_by == () == made.key
    bounds = made.version().index.bounds
    (x_low, x_high), (y_low, y_high) = bounds["x"], bounds["y"]
    near = (x_low <= 0.1) & (x_high >= 0) & (y_low <= 5e5) & (y_high >= 4.5e5)
    assert 1 <= near.sum() < 0.05 * len(near)
    with pytest.raises(KeyError):
        bounds["z"]


# -- versions -------------------------------------------------------------------------------------


def test_versions_stay_what_they_are(make):
    made = make()
    first = rows_of(made, 1)
    assert made.update(pa.table({"id": [2], "name": ["new"]}), compact=False) == 2
    assert made.append(pa.table({"id": [2], "name": ["more"]}), compact=False) == 3
    assert made.update(deletes=pa.table({"id": [1, 77]}), compact=False) == 4
    assert made.update(deletes=pa.table({"id": [1, 77]}), compact=False) == 4  # nothing to remove
    assert made.compact() == 5
    assert made.compact() == 5
    assert rows_of(made, 1) == first
    assert rows_of(made, 2) == Counter([(1, "a"), (2, "new"), (None, "d"), (5, None)])
    assert rows_of(made, 3)[2, "more"] == 1
    wanted = Counter([(2, "new"), (2, "more"), (None, "d"), (5, None)])
    assert rows_of(made, 4) == rows_of(made, 5) == wanted
    changed = [made.version().changed_since(n) for n in range(1, 6)]
    assert [len(c) for c in changed] == [2, 2, 1, 0, 0]
    assert set(changed[0]) == set(hash_of(made, [1, 2]))
    assert made.version(3).changed_since(4) is None
    with pytest.raises(FileError, match=r"has no version 6; versions there are 1, 2, 3"):
        made.version(6)


def test_an_update_is_seen_by_who_has_opened_before(make):
    made = make()
    other = open_relation(made.name)
    for n in range(30):
        made.update(pa.table({"id": [n], "name": ["x"]}))
        assert other.newest() == made.newest()
        assert other.version().rows == made.version().rows
    made.vacuum(keep_s=0)
    made.append(TABLE)
    assert other.newest() == made.newest()


def test_updates_are_merged_at_times(make):
    made = make(pa.table({"id": range(5000), "name": ["n" * 50] * 5000}))
    for n in range(20):
        made.update(pa.table({"id": [n], "name": ["x"]}))
    assert made.newest() == 22
    assert len(made.version().record.deltas) == 3
    made.update(pa.table({"id": range(3000), "name": ["x" * 50] * 3000}))
    assert len(made.version().record.deltas) == 0


def test_unique(make):
    with pytest.raises(DataError, match=r"is unique, but several rows have the key id = 2; leave"):
        make(unique=True)
    made = make(TABLE.slice(2), unique=True)
    made.append(pa.table({"id": [None, None], "name": ["x", "x"]}, schema=TABLE.schema))
    before = made.newest()
    for call in (made.append, made.update):
        with pytest.raises(DataError, match=r"several rows have the key id = 8"):
            call(pa.table({"id": [8, 9, 8], "name": ["x", "y", "x"]}))
    with pytest.raises(DataError, match=r"has a row with the key id = 5 already; give it as an up"):
        made.append(pa.table({"id": [6, 5], "name": ["x", "y"]}))
    assert made.newest() == before
    made.append(pa.table({"id": [6, 7], "name": ["x", "y"]}))
    made.update(pa.table({"id": [6, 8], "name": ["z", "z"]}))
    assert made.version().rows == 3 + 2 + 2 + 1


@pytest.mark.parametrize("cluster", [(), ("n",)])
def test_vacuum(make, cluster):
    table = pa.table({"id": range(300), "n": range(300)})
    made = make(table, cluster=cluster)
    contents = {1: rows_of(made)}
    for n in range(2, 8):
        made.update(pa.table({"id": [n], "n": [-n]}), pa.table({"id": [200 + n]}), compact=False)
        contents[n] = rows_of(made)
    made.compact()
    assert made.pin("query", 3) == 8
    made.update(deletes=pa.table({"id": [1]}))
    assert made.newest() == 9
    assert made.pin("query", 3) == 8
    assert made.pin("query", 4) == 9
    assert made.vacuum(keep=9, keep_s=0) == made.vacuum() == Removed(0, 0, 0)
    assert made.numbers() == list(range(1, 10))
    assert made.vacuum(keep=3, keep_s=0).versions == 6
    assert made.numbers() == [7, 8, 9]
    assert rows_of(made, 7) == rows_of(made, 8) == contents[7]
    assert made.version().changed_since(6) is not None
    assert made.version().changed_since(5) is None
    made.append(table)
    made.append(table)
    made.vacuum(keep_s=0)
    assert made.numbers() == list(range(8, made.newest() + 1))  # pinned ones, and what follows
    assert rows_of(made, 8) == contents[7]
    assert rows_of(made, 9) == contents[7] - Counter([(1, 1)])
    assert made.vacuum(keep_s=0, pins_s=0.0).versions > 0
    assert made.numbers() == [made.newest()]
    files = set(Path(made.name, "data").iterdir())
    assert len(files) == 2 * len(made.version().record.segments)
    assert list(made.check()) == []


def test_pins_elsewhere(make, tmp_path):
    made = make()
    place = str(tmp_path / "pins")
    assert made.pin("q", "0", place) == 1
    made.append(TABLE, compact=False)
    made.append(TABLE, compact=False)
    assert made.pin("q", "0", place) == 1
    made.vacuum(keep_s=0, pins=[place])
    assert made.numbers() == [1, 2, 3]
    made.vacuum(keep_s=0)
    assert made.numbers() == [3]
    for name in ("", "a/b", ".a"):
        with pytest.raises(UsageError, match="cannot be the name of a pin"):
            made.pin(name, 1)


def test_what_a_killed_update_leaves_is_removed_later(make):
    made = make()
    data, name = Path(made.name, "data"), "0123" * 8
    (data / f"{name}.pages").write_bytes(b"x")
    (data / f".{name}.index.{name}.partial").write_bytes(b"x")
    notes = [
        data.parent / folder / f".{file}.{name}.partial"
        for folder, file in [("", "newest.json"), ("versions", f"{9:020}.json"), ("pins/q", "1")]
    ]
    for note in notes:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_bytes(b"x")
    sorting = data.parent / ".sort.abcd0123"
    sorting.mkdir()
    (sorting / "run-1").write_bytes(b"x")
    killed = data.parent.with_name(f".new.{name}.partial")
    (killed / "data").mkdir(parents=True)
    make(name="new")
    assert killed.exists()  # a build may be writing it
    os.utime(killed, (0, 0))
    make(name="old.new")
    assert killed.exists()
    shutil.rmtree(data.parent.with_name("new"))
    make(name="new")
    assert not killed.exists()
    assert made.vacuum(keep_s=0).files == 0  # an update may be writing them
    assert all(one.exists() for one in (sorting, *notes))
    assert made.vacuum(orphans_s=-1).files == 2
    assert not any(one.exists() for one in (sorting, *notes))
    assert len(list(data.iterdir())) == 2


# -- several writers ------------------------------------------------------------------------------


def test_writers_that_race(make):
    made = make(pa.table({"id": range(100), "name": ["n"] * 100}))
    failed: list[BaseException] = []

    def write(writer: int) -> None:
        try:
            own = open_relation(made.name)
            for n in range(8):
                own.update(pa.table({"id": [1000 * writer + n], "name": [f"w{writer}"]}))
                own.append(pa.table({"id": [n], "name": [f"w{writer}"]}), compact=n % 3 == 0)
                if n % 4 == 0:
                    own.compact()
        except BaseException as error:
            failed.append(error)

    writers = [threading.Thread(target=write, args=(n + 1,)) for n in range(3)]
    for one in writers:
        one.start()
    for one in writers:
        one.join(120)
    assert failed == []
    wanted = Counter((n, "n") for n in range(100))
    for writer in (1, 2, 3):
        wanted += Counter((1000 * writer + n, f"w{writer}") for n in range(8))
        wanted += Counter((n, f"w{writer}") for n in range(8))
    assert rows_of(made) == wanted
    assert made.version().rows == 148
    assert list(made.check()) == []
    assert made.numbers() == list(range(1, made.newest() + 1))


def test_two_builds_of_one_name(tmp_path):
    made: list[object] = []

    def start() -> None:
        try:
            made.append(build(TABLE, str(tmp_path / "r"), RelationOptions(key=("id",))))
        except FileError as error:
            made.append(str(error))

    threads = [threading.Thread(target=start) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert sum(isinstance(one, FolderRelation) for one in made) == 1
    assert all("exists; update it" in one for one in made if isinstance(one, str))
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


def test_names_of_hashes():
    assert KeyHash().name == "splitmix64-1"
    for name in ("", "md5", "splitmix64-1/0", "splitmix64-1/65", "splitmix64-1/x"):
        with pytest.raises(FileError, match="which this release does not know"):
            KeyHash(name)
    whole = KeyHash().of_rows(TABLE, ["id"], "t")
    eight = KeyHash("splitmix64-1/8").of_rows(TABLE, ["id"], "t")
    known = whole != NULL_HASH
    assert ((whole >> np.uint64(56))[known] == (eight >> np.uint64(56))[known]).all()
    assert (eight[known] & np.uint64((1 << 56) - 1) == 0).all()
    assert (~known).sum() == 1
