"""The engine for SQL of tables: its macros, its locks, its limits, and how it is interrupted."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from subprocess import PIPE

import pyarrow as pa
import pytest

import penstock
from penstock.errors import DataError, PenstockError, QueryError
from penstock.host.relational.engine import RelationalEngine, open_database
from penstock.zones import zone_of

TIMES = pa.timestamp("us", "UTC")
OFFSETS = ("0", "05", "5:30", "053015", "05:30:15", "9:5", "18:00")
ROWS = pa.table({"id": [1, 2], "s": ["a", "b"]})


def test_texts_that_look_like_macros():
    with closing(RelationalEngine(None)) as engine:
        found = engine.run(
            "SELECT 'ps_own_nothing ps_nothing' AS ps_upper, ps_size([7, 2, 1]) AS x", {}
        )
    assert found.to_pylist() == [{"ps_upper": "ps_own_nothing ps_nothing", "x": 3}]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_text('{file}')",
        "FROM '{file}'",
        "SELECT * FROM glob('{folder}/*')",
        "COPY (SELECT 1) TO '{folder}/made'",
        "ATTACH '{folder}/made.db'",
        "EXPORT DATABASE '{folder}/made'",
        "LOAD httpfs",
        "INSTALL httpfs",
        "SET memory_limit = '1GB'",
        "SET enable_external_access = true",
        "SET TimeZone = 'Asia/Tokyo'",
        "FROM seen_in_python",
    ],
)
def test_a_database_reads_and_makes_nothing(text: str, tmp_path: Path):
    import duckdb

    seen_in_python = ROWS
    assert seen_in_python.num_rows
    file = tmp_path / "canary.csv"
    file.write_text("c\n1\n")
    with closing(open_database("UTC")) as database, pytest.raises(duckdb.Error):
        database.execute(text.format(file=file, folder=tmp_path)).fetchall()
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    "text", ["SELECT 1; SELECT 2", "CREATE TABLE x (y INT)", "", "SET VARIABLE x = 1"]
)
def test_one_select_a_call(text: str):
    with closing(RelationalEngine(None)) as engine, pytest.raises(QueryError, match="one SELECT"):
        engine.run(text, {})


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("repeat('x', 2000000000)", "more than 65,536 characters"),
        ("repeat(s, 70000)", "more than 65,536 characters"),
        ("lpad(s, 2147483647, 'x')", "more than 65,536 characters"),
        ("rpad(s, 2147483647, 'x')", "more than 65,536 characters"),
        ("replace(repeat(s, 60000), 'a', repeat('x', 60000))", "more than 1,048,576 bytes"),
        ("regexp_replace(repeat(s, 60000), 'a', '$0$0$0$0$0$0$0$0$0$0$0$0')", "1,048,576 bytes"),
        (" || ".join(["repeat(s, 60000)"] * 20), "more than 1,048,576 bytes"),
        ("sequence(1, 1000000000)", "more than 10,000 elements"),
        ("sequence(date'2020-01-01', date'2021-01-01', interval 1 second)", "10,000 elements"),
        ("format_number(1.5D, '2}{')", "Could not convert"),
        ("levenshtein(repeat(s, 2000), repeat('x', 2000))", "1,048,576 pairs of characters"),
    ],
)
def test_values_without_end(value: str, error: str):
    with pytest.raises(DataError, match=error):
        penstock.sql(f"SELECT id, {value} AS y FROM r ORDER BY id", {"r": ROWS})


@pytest.mark.parametrize(
    "zone",
    [
        *(f"{p}{s}{o}" for p in ("", "UTC", "GMT", "UT") for s in "+-" for o in OFFSETS),
        *("Z", "UT", "PST", "EST", "HST"),
    ],
)
def test_a_database_has_the_clock_of_every_zone(zone: str):
    instants = pa.array([1_709_985_600, 1_720_000_000], pa.timestamp("s", "UTC"))
    table = pa.table({"x": instants.cast(TIMES)})
    with closing(RelationalEngine(zone)) as engine:
        rows = engine.run("SELECT x::TIMESTAMP AS wall, [x] AS y, {z: x} AS z FROM t", {"t": table})
    walls = zone_of(zone).local(instants.cast(pa.int64()).to_numpy(), "s")
    assert rows.column("wall").cast(pa.timestamp("s")).cast(pa.int64()).to_pylist() == list(walls)
    label = pa.timestamp("us", zone_of(zone).label)
    assert rows.schema.types[1:] == [pa.list_(label), pa.struct({"z": label})]
    assert [one["z"] for one in rows.column("z").to_pylist()] == instants.to_pylist()


def test_values_within_the_limits():
    query = (
        "SELECT repeat(s, 65536) AS a, lpad(s, 3, 'xy') AS b, replace(s, 'a', 'cc') AS c, "
        "sequence(3, 1, -2) AS d, s || 'b' AS e, repeat(s, -1) AS f FROM r ORDER BY id LIMIT 1"
    )
    (row,) = penstock.sql(query, {"r": ROWS}).to_pylist()
    assert row == {"a": "a" * 65536, "b": "xya", "c": "cc", "d": [3, 1], "e": "ab", "f": ""}


#: A query that would run for hours, in a process that says when it begins.
SLOW = """
import signal
from penstock.host.relational.engine import RelationalEngine
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell in the background ignores
engine = RelationalEngine(None)
engine.run("SELECT 1", {})
print("begins", flush=True)
engine.run(
    "SELECT count(*) FROM range(3000000) a(x), range(3000000) b(y) WHERE (x * y) % 7 = 3 AND x < y",
    {},
)
"""


def test_ctrl_c_ends_it():
    child = subprocess.Popen([sys.executable, "-c", SLOW], stdout=PIPE, stderr=PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "begins\n"
    for _ in range(60):  # one that comes while the database calls Python is lost
        child.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            child.wait(1)
            break
    child.kill()
    _, said = child.communicate()
    assert "KeyboardInterrupt" in said
    assert child.returncode == -signal.SIGINT


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("SELECT id AS `` FROM r ORDER BY id", "`` is no name"),
        ("SELECT * FROM unnest(array(1, 2)) ORDER BY 1", "unnest in FROM needs names"),
        ("SELECT * FROM star ORDER BY id", "a column named \\*"),
        ("SELECT ps_pow(id, 2) AS y FROM r ORDER BY id", "names begin with ps_ .*PS_POW"),
        ("SELECT ps_udf_f(id) AS y FROM r ORDER BY id", "names begin with ps_ .*PS_UDF_F"),
        ("SELECT `read_text`(s) AS y FROM r ORDER BY id", "function read_text is not supported"),
        ("SELECT s FROM nameless ORDER BY id", "a field of one, named ''; rename it"),
        ("SELECT s FROM zero ORDER BY id", "a field of one, named '.x00'; rename it"),
        ("SELECT id, 'a\0b' AS y FROM r ORDER BY id", "the character 0"),
        ("SELECT id, '\ud800' AS y FROM r ORDER BY id", "half a character, U\\+D800"),
        ("SELECT id FROM x.r ORDER BY id", "a database's name before a table's"),
        ("SELECT CAST(s AS JSON) AS y FROM r ORDER BY id", "CAST to JSON is not supported"),
        ("SELECT map(s) AS y FROM r", "lacks an argument"),
        (
            "SELECT " + "array(" * 100 + "1" + ")" * 100 + " AS y FROM r ORDER BY id",
            "too many lists, structs or maps inside one another",
        ),
        # What puts the user's words into messages once took a minute for such a word.
        (
            f"SELECT lower(a.s) AS y FROM r a JOIN r b ON lower(a.s) = lower(b.s) AND a.id = b.id "
            f"AND date_trunc('{'x' * 200_000}', TIMESTAMP '2024-01-01') IS NULL",
            "date_trunc takes one of",
        ),
        *(
            (f"SELECT transform(sequence(1, 100000), e -> {one}) AS y FROM r", "for each element")
            for one in (
                "sequence(1, 10000)",
                "repeat('x', 60000)",
                "lpad('x', 60000, 'y')",
                "transform(sequence(1, 9), f -> f)",
            )
        ),
        (
            "SELECT id, " + " + ".join(["id"] * 2000) + " AS y FROM r ORDER BY id",
            "inside one another",
        ),
        (
            "SELECT id, lower(s) AS y FROM r WHERE "
            + " AND ".join(f"id <> {k}" for k in range(2200)),
            "more than the 10,000",
        ),
        ("SELECT id FROM (" * 400 + "SELECT id FROM r" + ") q" * 400 + " ORDER BY id", "SELECTs"),
        (
            "WITH c0 AS (SELECT id FROM r), "
            + ", ".join(
                f"c{k + 1} AS (SELECT id FROM c{k} UNION ALL SELECT id FROM c{k})"
                for k in range(30)
            )
            + " SELECT id FROM c30",
            "read too often",
        ),
    ],
)
def test_refused_with_the_reason(text: str, error: str):
    def nested(name: str) -> pa.Table:
        return pa.table({"id": [1], "s": pa.array([{name: 1}], pa.struct({name: pa.int64()}))})

    tables = {
        "r": ROWS,
        "star": pa.table({"id": [1], "*": [2], "c": [3]}),
        "nameless": nested(""),
        "zero": nested("\0"),
    }
    with pytest.raises(PenstockError, match=error):
        penstock.sql(text, tables)


def test_odd_names_have_right_rows():
    fields = pa.struct({"a`b": pa.int64(), "c'd": pa.int64(), 'e"f': pa.int64()})
    table = pa.table(
        {"id": [1], "x'y": [2], "s": pa.array([{"a`b": 3, "c'd": 4, 'e"f': 5}], fields)}
    )
    text = "SELECT `x'y`, s.`a``b` AS b, s.`c'd` AS d, s.`e\"f` AS `f\"` FROM `it's` ORDER BY id"
    assert penstock.sql(text, {"it's": table}).to_pylist() == [{"x'y": 2, "b": 3, "d": 4, 'f"': 5}]


def test_a_table_that_is_named_like_a_part():
    text = (
        "SELECT lower(x.s) AS y, z.id AS z FROM part_1 x JOIN b ON b.id BETWEEN x.id - 5 AND "
        "x.id + 5 JOIN part_1 z ON z.id = x.id + 1 ORDER BY y"
    )
    rows = penstock.sql(text, {"part_1": ROWS, "b": ROWS}, time={"x": "id", "b": "id", "z": "id"})
    assert rows.to_pylist() == [{"y": "a", "z": 2}] * 2


INTEGERS = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_arithmetic_of_integers_is_that_of_the_join(dtype: pa.DataType):
    """The same values with ``lower``, which a part computes, and without, and no overflow."""
    most = min((1 << (dtype.bit_width - str(dtype).startswith("int"))) - 1, (1 << 61) - 1)
    a = pa.table({"t": [10, 90], "x": pa.array([3, most], dtype)})
    forms = {
        "a.x - b.x - 9": [-9, -9],
        "a.x + 2 * a.x": [9, 3 * most],
        "-a.x": [-3, -most],
        "9 - abs(a.x) % 2": [8, 8],
        "least(a.x, 3) - 9": [-6, -6],
        "CASE WHEN a.x > 1 THEN a.x - 9 ELSE a.x END": [-6, most - 9],
    }
    items = ", ".join(f"{form} AS d{k}" for k, form in enumerate(forms))
    query = "SELECT {} FROM a JOIN b ON b.t BETWEEN a.t - 5 AND a.t + 5"
    for extra in ("", ", lower('X') AS l"):
        rows = penstock.sql(
            query.format(items + extra), {"a": a, "b": a}, time={"a": "t", "b": "t"}
        )
        for k, values in enumerate(forms.values()):
            assert [int(value) for value in rows[f"d{k}"].to_pylist()] == values, (k, extra)
            is_wide = dtype.bit_width == 64  # of which sums are decimals
            assert is_wide or rows.schema.field(f"d{k}").type == pa.int64(), (k, extra)


@pytest.mark.parametrize(
    ("form", "start", "end"),
    [
        ("pmod({}, 5)", "id", 2),
        ("replace({}, 'a', 'aa')", "'a'", "a" * 2**12),
        ("substring({}, 2)", "'abcdefghijklmno'", "mno"),
        ("floor({} + 0.5)", "id", 2),
        ("sqrt({})", "1", 1.0),
        ("split_part({}, ',', 1)", "lower('A,B')", "a"),
    ],
)
def test_calls_in_one_another(form: str, start: str, end: object):
    """A macro that writes its argument several times does not make the text grow with powers."""
    value = start
    for _ in range(12):
        value = form.format(value)
    rows = penstock.sql(f"SELECT {value} AS y FROM r ORDER BY id DESC LIMIT 1", {"r": ROWS})
    assert rows["y"].to_pylist() == [end]


@pytest.mark.parametrize("name", ["x", "`a x`", "`it's`"])
def test_a_call_in_a_lambda(name: str):
    text = f"SELECT transform(array(7, 8), {name} -> pmod({name}, 5)) AS y FROM r LIMIT 1"
    assert penstock.sql(text, {"r": ROWS})["y"].to_pylist() == [[2, 3]]


@pytest.mark.parametrize("far", ["0001-01-01", "9999-12-31"])
@pytest.mark.parametrize("dtype", [pa.date32(), pa.timestamp("us"), pa.timestamp("s")], ids=str)
def test_times_beyond_nanoseconds(dtype: pa.DataType, far: str):
    events = pa.table({"id": [1, 2], "ts": pa.array([-1, 1 << 60]).cast(pa.timestamp("ns"))})
    ends = pa.table({"id": [1, 2], "hi": pa.array([far] * 2).cast(dtype)})
    text = (
        "SELECT e.id, greatest(h.hi, e.ts) = e.ts AS y FROM e JOIN h ON e.id = h.id ORDER BY e.id"
    )
    rows = penstock.sql(text, {"e": events, "h": ends})
    assert rows["y"].to_pylist() == [far < "1970"] * 2


def test_a_database_is_used_again_until_a_query_of_it_fails() -> None:
    """Errors that Spark's functions raise are found in a database that had other engines, too."""
    table, failing = pa.table({"x": [1, 2]}), "SELECT ps_repeat('ab', x * 100000) AS x FROM t"

    def opened(text: str) -> object:
        with closing(RelationalEngine("Europe/Rome")) as engine:
            if "ps_repeat" in text:
                with pytest.raises(DataError, match="take fewer"):
                    engine.run(text, {"t": table})
            else:
                assert engine.run(text, {"t": table}).num_rows == 2
            return engine._connection

    first = opened("SELECT x FROM t")
    assert opened("SELECT x + 1 FROM t") is first
    assert opened(failing) is first
    second = opened("SELECT x FROM t")
    assert second is not first
    with closing(RelationalEngine("Europe/Rome")) as engine, pytest.raises(DataError):
        engine.run("SELECT x FROM t", {"u": table})  # the tables of other queries are gone


def test_a_forked_process_opens_its_own_database() -> None:
    script = """
import os, pyarrow as pa, penstock
t = pa.table({"k": [1, 2]})
sql = "SELECT a.k FROM t a JOIN t b ON a.k = b.k"
assert penstock.sql(sql, {"t": t}).num_rows == 2
if not (child := os.fork()):
    assert penstock.sql(sql, {"t": t}).num_rows == 2
else:
    assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=60)
