"""Joins whose one task reads Parquet files itself have Spark's own rows, or leave them to Spark."""

from __future__ import annotations

import datetime
import re
import shutil
from collections import Counter
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from penstock.errors import FileError
from penstock.spark_bridge import explain, sql
from tests.spark_bridge.kit.settings import setting

ROWS = 20
TIME = {"a": "t", "b": "t"}
#: Queries are Spark's text, with the DataFrames in braces; for Penstock these are their names.
NEAR = "{a} a JOIN {b} b ON a.k = b.k AND b.t BETWEEN a.t - 60 AND a.t + 60"
ONE = f"SELECT a.n AS i, a.v AS v, b.n AS j FROM {NEAR}"
TWO = f"SELECT a.n AS i, a.v AS v, b.n AS j, b.v AS w FROM {NEAR}"
OLD, NEW = datetime.date(1500, 3, 1), datetime.date(2020, 3, 1)
#: What is said of a file that cannot be read, by Spark and by a task of Penstock.
REFUSED = "refused"
SAID = re.compile(r"FAILED_READ_FILE|FileError: cannot read|dictionary\.PlainValuesDictionary")
slow = pytest.mark.slow


def shorter(cases, *short) -> list:
    """These cases, of which the short run has some."""
    lists = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [
        pytest.param(*values, marks=() if case in short else slow)
        for case, values in zip(cases, lists, strict=True)
    ]


def some(*values):
    """These values again and again."""
    return [values[n % len(values)] for n in range(ROWS)]


def rows(values=None, start: int = 0, **more) -> pa.Table:
    """Rows with a number, a key, a time and a value, which is by default the number."""
    numbers = range(start, start + ROWS)
    value = pa.array(numbers, pa.int32()) if values is None else values
    keys, times = [n % 3 for n in numbers], [n * 7 % 90 for n in numbers]
    columns = {"n": pa.array(numbers, pa.int64()), "k": pa.array(keys, pa.int32())}
    return pa.table({**columns, "t": pa.array(times, pa.int64()), "v": value, **more})


def written(folder: Path, *tables: pa.Table, **options) -> Path:
    """A folder with a file for each table; the first one is ``0.parquet``."""
    folder.mkdir(parents=True, exist_ok=True)
    for n, table in enumerate(tables or (rows(),)):
        pq.write_table(table, folder / f"{n}.parquet", **options)
    return folder


@pytest.fixture(scope="module")
def other(spark, tmp_path_factory):
    """The other side, which is always read from a plain file."""
    return spark.read.parquet(str(written(tmp_path_factory.mktemp("other"))))


def counted(table: pa.Table) -> Counter:
    """Rows, with times as numbers, as Python's end in the year 9999, and text as bytes."""
    columns = []
    for column in table.columns:
        if pa.types.is_timestamp(column.type) or pa.types.is_date32(column.type):
            column = column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
        elif pa.types.is_string(column.type):
            column = column.cast(pa.binary())
        columns.append(column.to_pylist())
    return Counter(map(repr, zip(*columns, strict=True)))


def joined(spark, frames, text: str = ONE, **options):
    return sql(spark, text.format_map({n: n for n in frames}), frames, **{"time": TIME, **options})


def reads(spark, frames, text: str = ONE, **options) -> bool:
    """Whether the task reads the files itself."""
    given = {"time": TIME, **options}
    told = explain(spark, text.format_map({n: n for n in frames}), frames, **given)
    return re.search(r"reads their \d+ files? itself", told) is not None


def check(spark, frames, text: str = ONE, itself: bool | None = None, **options) -> int:
    """Spark's own rows and types; ``itself`` says who must read, None that either may."""
    by_task = reads(spark, frames, text, **options)
    found = joined(spark, frames, text, **options)
    expected = spark.sql(text, **frames)
    assert itself in (None, by_task)
    assert not (itself and found.inputFiles()), "Spark should have nothing left to read"
    assert [(f.name, f.dataType) for f in found.schema] == [
        (f.name, f.dataType) for f in expected.schema
    ]
    wanted = counted(expected.toArrow())
    assert counted(found.toArrow()) == wanted
    return wanted.total()


def outcome(frame) -> Counter | str:
    """The rows, or that a clear error says that a file cannot be read."""
    try:
        return counted(frame.toArrow())
    except (PySparkException, Py4JJavaError, FileError) as error:
        if not SAID.search(str(error)):
            raise
        return REFUSED


def check_outcome(spark, frames, found=None) -> Counter | str:
    """What Spark has. Of files that change after the call an error is no wrong row either."""
    expected = outcome(spark.sql(ONE, **frames))
    got = outcome(joined(spark, frames) if found is None else found)
    assert got == expected or (got == REFUSED and found is not None)
    return got


# Types


WALL = datetime.datetime(2023, 11, 5, 1, 30)
PLAIN = {
    "b": pa.array(some(-128, None, 127), pa.int8()),
    "s": pa.array(some(-(1 << 15), None, (1 << 15) - 1), pa.int16()),
    "i": pa.array(some(-(1 << 31), None, (1 << 31) - 1), pa.int32()),
    "l": pa.array(some(-(1 << 63), None, (1 << 63) - 1), pa.int64()),
    "f": pa.array(some(0.1, float("nan"), None, -0.0, float("inf")), pa.float32()),
    "d": pa.array(some(0.1, float("nan"), None, -0.0, 0.0, float("-inf"), 5e-324), pa.float64()),
    "ok": pa.array(some(True, None, False)),
    "text": pa.array(some("", "é\0b", None, "🙂")),
    "raw": pa.array(some(b"", b"\xff\0", None)),
    "p9": pa.array(some(Decimal("1.23"), None, Decimal("-9999999.99")), pa.decimal128(9, 2)),
    "p18": pa.array(some(Decimal(10) ** 17, None, Decimal(-1)), pa.decimal128(18, 0)),
    "p38": pa.array(some(Decimal(10) ** 37, None, Decimal(-1)), pa.decimal128(38, 0)),
    "day": pa.array(some(NEW, None, datetime.date(1950, 1, 1), datetime.date(9999, 12, 31))),
    "at": pa.array(some(WALL, None, datetime.datetime(1969, 12, 31)), pa.timestamp("us", "UTC")),
    "wall": pa.array(some(WALL, None, datetime.datetime(3000, 1, 1)), pa.timestamp("us")),
}
ALL = ", ".join(f"{side}.{name} AS {side}_{name}" for side in "ab" for name in PLAIN)
PARTS = (rows(**PLAIN), rows(start=50, **PLAIN))


WAYS = [
    {},
    {"store_schema": False, "version": "1.0"},
    {"data_page_version": "2.0", "row_group_size": 7},
    {"store_decimal_as_integer": True, "compression": "gzip"},
    {"use_dictionary": False, "compression": "zstd"},
    {"compression": "lz4", "write_page_checksum": True},
]


@pytest.mark.parametrize("options", shorter(WAYS, {}), ids=str)
def test_plain_types_by_pyarrow(spark, tmp_path, options):
    frame = spark.read.parquet(str(written(tmp_path, *PARTS, **options)))
    text = f"SELECT a.n AS i, b.n AS j, {ALL} FROM {NEAR}"
    assert check(spark, {"a": frame, "b": frame}, text, itself=True) > 100


OUTPUT = "spark.sql.parquet.outputTimestampType"
LEGACY_FORMAT = "spark.sql.parquet.writeLegacyFormat"


SETTINGS = [
    ({}, True),
    ({OUTPUT: "TIMESTAMP_MICROS"}, True),
    ({OUTPUT: "INT96"}, None),
    ({OUTPUT: "TIMESTAMP_MILLIS"}, None),
    ({LEGACY_FORMAT: "true"}, None),
]


@pytest.mark.parametrize(("settings", "itself"), shorter(SETTINGS, SETTINGS[0]), ids=str)
def test_plain_types_by_spark(spark, tmp_path, settings, itself):
    source = spark.read.parquet(str(written(tmp_path / "source", *PARTS)))
    with ExitStack() as stack:
        for key, value in settings.items():
            stack.enter_context(setting(spark, key, value))
        source.coalesce(2).write.parquet(str(tmp_path / "by_spark"))
    frame = spark.read.parquet(str(tmp_path / "by_spark"))
    text = f"SELECT a.n AS i, b.n AS j, {ALL} FROM {NEAR}"
    assert check(spark, {"a": frame, "b": frame}, text, itself=itself) > 100


@pytest.mark.parametrize("name", shorter(["v", *PLAIN], "v"))
def test_files_without_rows_or_values(spark, tmp_path, other, name):
    full = rows(**PLAIN)
    nothing = full.set_column(
        full.schema.get_field_index(name), name, pa.nulls(ROWS, full[name].type)
    )
    frame = spark.read.parquet(str(written(tmp_path, full.slice(0, 0), full, nothing)))
    itself = True if name == "v" else None
    assert check(spark, {"a": frame, "b": other}, ONE.replace("a.v", f"a.{name}"), itself) > 50
    empty = spark.read.parquet(str(tmp_path / "0.parquet"))
    assert check(spark, {"a": empty, "b": other}, itself=True) == 0


def shown(number, unit: str, zone: str | None = None) -> pa.Array:
    return pa.array(some(number, None, 0)).cast(pa.timestamp(unit, zone))


#: What Spark takes for another type than pyarrow does, or in another unit.
ODD = {
    **{f"u{bits}": pa.array(some((1 << bits) - 1, None, 0), f"uint{bits}") for bits in (8, 16, 32)},
    "u64": pa.array(some((1 << 64) - 1, None, 0), pa.uint64()),
    "long_text": pa.array(some("a", None, "é"), pa.large_string()),
    "view": pa.array(some("a", None, "é"), pa.string_view()),
    "words": pa.array(some("a", None, "é")).dictionary_encode(),
    "numbers": pa.array(some(5, None, 7)).dictionary_encode(),
    "fixed": pa.array(some(b"ab", None, b"\xff\0"), pa.binary(2)),
    "wide": pa.array(some(Decimal(10) ** 37, None), pa.decimal256(38, 0)),
    "ms": shown(1_700_000_000_123, "ms", "UTC"),
    "wall_ms": shown(1_700_000_000_123, "ms"),
    "berlin": shown(1_700_000_000_123_456, "us", "Europe/Berlin"),
    "offset": shown(1_700_000_000_123_456, "us", "+02:00"),
    "long_day": pa.array(some(NEW, None), pa.date64()),
    **{f"gap_{unit}": pa.array(some(-5, None, 7), pa.duration(unit)) for unit in ("s", "us", "ns")},
    "none": pa.nulls(ROWS),
    "items": pa.array(some([1, None], None, [])),
    "pair": pa.array(some({"x": 1}, None)),
    "map": pa.array(some([("x", 1)], None), pa.map_(pa.string(), pa.int64())),
}


@pytest.fixture(scope="module")
def odd(spark, tmp_path_factory):
    return spark.read.parquet(str(written(tmp_path_factory.mktemp("odd"), rows(**ODD))))


@pytest.mark.parametrize("name", shorter(ODD))
def test_a_type_that_is_another_in_spark(spark, odd, other, name):
    check(spark, {"a": odd, "b": other}, ONE.replace("a.v", f"a.{name}"))


def test_types_that_are_others_in_spark(spark, odd, other):
    """All at once; what stands beside the selected columns is in no one's way."""
    names = ", ".join(f"a.{name}" for name in ODD)
    check(spark, {"a": odd, "b": other}, f"SELECT a.n AS i, b.n AS j, {names} FROM {NEAR}")
    assert check(spark, {"a": odd, "b": other}, itself=True) > 50
    assert reads(spark, {"a": odd.select("v", "t", "n", "k"), "b": other})


@slow
@pytest.mark.parametrize("zone", ["UTC", None])
def test_old_timestamps_by_pyarrow(spark, tmp_path, other, zone):
    """INT96 counts nanoseconds, of which Spark drops some."""
    values = pa.array(some(-1, 1001, -1001, None, 10**18 + 999), pa.timestamp("ns", zone))
    folder = written(tmp_path, rows(values), use_deprecated_int96_timestamps=True)
    check(spark, {"a": spark.read.parquet(str(folder)), "b": other})


CONVERSION = "spark.sql.parquet.int96TimestampConversion"


@slow
@pytest.mark.parametrize("conversion", ["false", "true"])
def test_a_file_of_spark_that_pyarrow_wrote_again(spark, tmp_path, other, conversion):
    """It still says that Spark wrote it; times that others wrote may be walls' in Spark."""
    with setting(spark, OUTPUT, "INT96"):
        at = other.withColumn("v", F.expr("timestamp'2020-03-01 01:02:03.123456'"))
        at.coalesce(1).write.parquet(str(tmp_path / "own"))
    (own,) = (tmp_path / "own").glob("*.parquet")
    again = written(tmp_path / "again", pq.read_table(own), use_deprecated_int96_timestamps=True)
    with setting(spark, CONVERSION, conversion):
        for folder in (tmp_path / "own", again):
            frames = {"a": spark.read.parquet(str(folder)), "b": other}
            assert check(spark, frames) > 50


def test_text_that_is_no_utf8(spark, tmp_path, other):
    raw = pa.array(some(b"ab", b"\xff\xfe", b"\xc3("))
    folder = written(tmp_path, rows(pa.StringArray.from_buffers(ROWS, *raw.buffers()[1:])))
    assert check(spark, {"a": spark.read.parquet(str(folder)), "b": other}) > 50


# Calendars


REBASE = "spark.sql.parquet.datetimeRebaseModeIn"
REBASE_96 = "spark.sql.parquet.int96RebaseModeIn"
DAYS = f"SELECT a.n AS i, b.n AS j, a.day, a.at, a.wall FROM {NEAR}"


@pytest.mark.parametrize("output", shorter(["TIMESTAMP_MICROS", "INT96"], "TIMESTAMP_MICROS"))
@pytest.mark.parametrize(
    ("year", "mode"),
    shorter(
        [(y, m) for y in ("1500", "1890", "2020", "0004") for m in ("LEGACY", "CORRECTED")],
        ("1500", "LEGACY"),
    ),
)
def test_calendars_in_which_spark_wrote(spark, tmp_path, other, output, year, mode):
    zones = {"at": "timestamp", "wall": "timestamp_ntz", "day": "date"}
    values = {name: f"if(n % 4 = 0, NULL, {kind}'{year}-03-01')" for name, kind in zones.items()}
    with (
        setting(spark, OUTPUT, output),
        setting(spark, f"{REBASE}Write", mode),
        setting(spark, f"{REBASE_96}Write", mode),
    ):
        old = other.withColumns({name: F.expr(value) for name, value in values.items()})
        old.write.parquet(str(tmp_path / "old"))
    frames = {"a": spark.read.parquet(str(tmp_path / "old")), "b": other}
    must_not = mode == "LEGACY" and year < "1900"
    assert check(spark, frames, DAYS, itself=False if must_not else None) > 50


@pytest.mark.parametrize(
    ("mode", "statistics"),
    shorter([("LEGACY", True), ("LEGACY", False), ("CORRECTED", True)], ("LEGACY", True)),
)
def test_old_days_by_others(spark, tmp_path, other, mode, statistics):
    """Spark goes by a setting, as the file does not say how its days were counted."""
    days = pa.array(some(NEW, NEW, None, OLD))
    more = {name: days.cast(PLAIN[name].type) for name in ("day", "at", "wall")}
    folder = written(tmp_path, rows(**more), row_group_size=7, write_statistics=statistics)
    with setting(spark, f"{REBASE}Read", mode):
        frames = {"a": spark.read.parquet(str(folder)), "b": other}
        assert check(spark, frames, DAYS, itself=False if mode == "LEGACY" else None) > 50


@pytest.mark.parametrize("said", shorter(["2.4.0", "10.0.0", "x"]))
def test_old_days_of_some_version_of_spark(spark, tmp_path, other, said):
    days = pa.array(some(NEW, None, OLD))
    table = rows(days).replace_schema_metadata({"org.apache.spark.version": said})
    check(spark, {"a": spark.read.parquet(str(written(tmp_path, table))), "b": other})


@pytest.mark.parametrize("name", shorter(["day", "at", "wall"], "day"))
@pytest.mark.parametrize("both", shorter([False, True], True))
def test_days_that_python_has_not(spark, tmp_path, other, name, both):
    """DuckDB writes infinity as the first or last day or time; Spark counts on, in long years."""
    bits = 31 if name == "day" else 63
    ends = some((1 << bits) - 1, None, -(1 << bits) if both else None)
    values = pa.array(ends, f"int{bits + 1}").cast(PLAIN[name].type)
    folder = written(tmp_path, rows(values))
    assert check(spark, {"a": spark.read.parquet(str(folder)), "b": other}) > 50


# Where files are, and how they are called


NAMES = ("with space", "a%20b", "100%", "h#x", "ü ß", "q?x", "[x]", "{y}", "a*b", "k=1", "a+b&c;")


def test_names_of_files(spark, tmp_path, other):
    plain = written(tmp_path / "plain") / "0.parquet"
    odd = tmp_path / "a%20b #é +=1"
    odd.mkdir()
    for n, name in enumerate(NAMES):
        pq.write_table(rows(start=n), odd / f"{name}.parquet")
    shutil.copy(plain, odd / "_hidden.parquet")
    shutil.copy(plain, odd / ".hidden.parquet")
    shutil.copy(plain, written(odd / "below") / "deep.parquet")
    frames = {"a": spark.read.parquet(str(odd)), "b": other}
    assert check(spark, frames, itself=True) > 500


@pytest.mark.parametrize("name", shorter(NAMES))
def test_a_name_of_a_folder(spark, tmp_path, other, name):
    folder = written(tmp_path / name)
    path = re.sub(r"([\[{?*])", r"\\\1", str(folder))
    assert check(spark, {"a": spark.read.parquet(path), "b": other}, itself=True) > 50


@pytest.mark.parametrize("twice", shorter([False, True], False))
def test_folders_of_keys(spark, tmp_path, other, twice):
    """The value of a folder stands for the column, even where the file has one, too."""
    for key in range(3):
        table = (
            rows(start=key).filter(pc.field("k") == key) if twice else rows(start=key).drop(["k"])
        )
        written(tmp_path / f"k={key + 1}", table)
    frames = {"a": spark.read.parquet(str(tmp_path)), "b": other}
    assert check(spark, frames, itself=False) > 50
    # As one of the files themselves, the folder's name is nothing but a name.
    one = spark.read.parquet(str(tmp_path / "k=1")).select("n", "t", "v")
    on = f"SELECT a.n AS i, b.n AS j FROM {NEAR}".replace("a.k = b.k", "a.v = b.v")
    assert check(spark, {"a": one, "b": other}, on, itself=True) > 0


TABLE = "CREATE TABLE a_table (n long, k int, t long"
MADE = "CREATE TABLE a_table USING parquet"
TABLES = {
    "view": (True, "CREATE TEMPORARY VIEW a_table AS SELECT * FROM parquet.`{own}`"),
    "external": (True, f"{TABLE}, v int) USING parquet LOCATION '{{own}}'"),
    "managed": (True, f"{MADE} AS SELECT * FROM parquet.`{{own}}`"),
    "keys": (False, f"{MADE} PARTITIONED BY (k) AS SELECT * FROM parquet.`{{own}}`"),
    "buckets": (
        None,
        f"{MADE} CLUSTERED BY (k) SORTED BY (t) INTO 3 BUCKETS AS SELECT * FROM parquet.`{{own}}`",
    ),
    # Spark pads what it reads to five characters.
    "char": (False, f"{TABLE}, v char(5)) USING parquet LOCATION '{{text}}'"),
    "default": (
        False,
        f"{TABLE}) USING parquet LOCATION '{{lean}}'; "
        "ALTER TABLE a_table ADD COLUMNS (v int DEFAULT 42)",
    ),
}


@pytest.mark.parametrize("kind", shorter(TABLES, "char"))
def test_tables(spark, tmp_path, other, kind):
    tables = {"own": rows(), "text": rows(pa.array(some("a", "b"))), "lean": rows().drop(["v"])}
    places = {name: written(tmp_path / name, table) for name, table in tables.items()}
    itself, statements = TABLES[kind]
    try:
        for statement in statements.format_map(places).split("; "):
            spark.sql(statement)
        assert check(spark, {"a": spark.table("a_table"), "b": other}, itself=itself) > 50
    finally:
        spark.catalog.dropTempView("a_table")
        spark.sql("DROP TABLE IF EXISTS a_table")


# Schemas


LEAN = "n long, k int, t long"
BIG, SMALL = pa.array(some(1 << 40, None)), pa.array(some(7, None), pa.int32())
CENTS = pa.array(some(Decimal("1.25"), None), pa.decimal128(7, 2))
#: A schema that is given to the reader, what is in the file, and who reads.
GIVEN = {
    "same": (f"{LEAN}, v int", SMALL, True),
    "other order": ("v int, t long, k int, n long", SMALL, True),
    "an unused column more": (f"{LEAN}, v int, x struct<y:int>", SMALL, True),
    "never NULL": (f"{LEAN}, v int NOT NULL", SMALL, True),
    "a column of none": (f"{LEAN}, u int, v int", None, False),
    "upper case": ("N long, K int, T long, V int", SMALL, None),
    "longer": (f"{LEAN}, v long", SMALL, None),
    "shorter": (f"{LEAN}, v short", SMALL, None),
    "double": (f"{LEAN}, v double", SMALL, None),
    "date of int": (f"{LEAN}, v date", SMALL, None),
    "decimal of int": (f"{LEAN}, v decimal(12, 2)", SMALL, None),
    "double of float": (f"{LEAN}, v double", pa.array(some(0.1, None), pa.float32()), None),
    "more digits": (f"{LEAN}, v decimal(9, 2)", CENTS, None),
    "finer": (f"{LEAN}, v decimal(9, 3)", CENTS, None),
    "text of bytes": (f"{LEAN}, v string", pa.array(some(b"a", b"\xff")), None),
    "bytes of text": (f"{LEAN}, v binary", pa.array(some("a", "é")), None),
    "wall of instant": (f"{LEAN}, v timestamp_ntz", shown(10**15, "us", "UTC"), None),
    "instant of wall": (f"{LEAN}, v timestamp", shown(10**15, "us"), None),
    "wall of day": (f"{LEAN}, v timestamp_ntz", PLAIN["day"], None),
    "number of instant": (f"{LEAN}, v long", shown(10**15, "us", "UTC"), None),
    "number of nanoseconds": (f"{LEAN}, v long", shown(10**18, "ns", "UTC"), None),
    "byte of unsigned": (f"{LEAN}, v byte", ODD["u8"], None),
}
#: What Spark refuses.
NOT_GIVEN = {
    "int of long": ("int", BIG),
    "int of unsigned": ("int", ODD["u32"]),
    "text of int": ("string", SMALL),
    "fewer digits": ("decimal(6, 2)", CENTS),
    "coarser": ("decimal(7, 1)", CENTS),
    "float of double": ("float", PLAIN["d"]),
    "instant of day": ("timestamp", PLAIN["day"]),
    "day of wall": ("date", PLAIN["wall"]),
    "instant of nanoseconds": ("timestamp", shown(10**18, "ns", "UTC")),
    "number of struct": ("int", ODD["pair"]),
    "struct of number": ("struct<x:int>", SMALL),
}


@pytest.mark.parametrize("case", shorter(GIVEN, "a column of none", "upper case"))
def test_schemas_given_to_the_reader(spark, tmp_path, other, case):
    schema, values, itself = GIVEN[case]
    table = rows().drop(["v"]).append_column("u", SMALL) if values is None else rows(values)
    frame = spark.read.schema(schema).parquet(str(written(tmp_path, table)))
    assert check(spark, {"a": frame, "b": other}, itself=itself) > 50


@pytest.mark.parametrize("case", shorter(NOT_GIVEN, "number of struct"))
def test_schemas_that_spark_refuses(spark, tmp_path, other, case):
    kind, values = NOT_GIVEN[case]
    reader = spark.read.schema(f"{LEAN}, v {kind}")
    frames = {"a": reader.parquet(str(written(tmp_path, rows(values)))), "b": other}
    with pytest.raises((PySparkException, Py4JJavaError)):
        spark.sql(ONE, **frames).collect()
    with pytest.raises((PySparkException, Py4JJavaError, FileError)):
        joined(spark, frames).collect()


SECOND = {
    "less": rows().drop(["v"]),
    "another order": rows().select(["v", "t", "n", "k"]),
    "upper case": rows().rename_columns(["N", "K", "T", "V"]),
    "narrower": rows(SMALL),
    "unsigned": rows(ODD["u32"]),
    "text": rows(pa.array(some("1", "2"))),
    "instants": rows(shown(1_700_000_000_123_456, "us", "UTC")),
}


@pytest.mark.parametrize("case", shorter(SECOND, "narrower"))
def test_files_of_two_schemas(spark, tmp_path, other, case):
    """Spark knows the first one only."""
    folder = written(tmp_path, rows(BIG), SECOND[case])
    check_outcome(spark, {"a": spark.read.parquet(str(folder)), "b": other})


CALLED = ("a.b", "a`c", "s p", "Ünï", "UPPER", "select", "", "pair.x")


def test_names_of_columns(spark, tmp_path, other):
    """``pair.x`` is a column, not a member of the struct beside it."""
    table = rows(pair=ODD["pair"])
    for n, name in enumerate(CALLED):
        table = table.append_column(name, pa.array(range(n, n + ROWS)))
    frame = spark.read.parquet(str(written(tmp_path, table)))
    quoted = ["`" + name.replace("`", "``") + "`" for name in CALLED]
    names = ", ".join(f"a.{name} AS c{n}" for n, name in enumerate(quoted))
    text = f"SELECT a.n AS i, b.n AS j, a.upper AS u, {names} FROM {NEAR}"
    assert check(spark, {"a": frame, "b": other}, text) > 50
    frame = frame.select("n", "k", "t", F.col("`a.b`").alias("v"))
    assert check(spark, {"a": frame, "b": other}) > 50


@slow
def test_a_name_that_is_also_a_path(spark, tmp_path, other):
    """The statistics of a struct's member say nothing of the column."""
    pairs = pa.array([{"x": NEW}] * ROWS)
    folder = written(tmp_path, rows(**{"pair": pairs, "pair.x": pa.array(some(NEW, OLD))}))
    with setting(spark, f"{REBASE}Read", "LEGACY"):
        frames = {"a": spark.read.parquet(str(folder)), "b": other}
        assert check(spark, frames, ONE.replace("a.v", "a.`pair.x`")) > 50


def test_columns_that_differ_in_case(spark, tmp_path, other):
    folder = str(written(tmp_path, rows(V=pa.array(range(100, 100 + ROWS)))))
    with setting(spark, "spark.sql.caseSensitive", "true"):
        frames = {"a": spark.read.parquet(folder), "b": other}
        assert check(spark, frames) > 50
        assert check(spark, frames, ONE.replace("a.v", "a.V")) > 50


# What is done with what was read


OPTIONS = {
    "pathGlobFilter": ("0*", False),
    "recursiveFileLookup": ("true", None),
    "mergeSchema": ("true", None),
    "ignoreMissingFiles": ("true", None),
    "modifiedAfter": ("2020-01-01T00:00:00", None),
    "datetimeRebaseMode": ("LEGACY", None),
}


@pytest.mark.parametrize("option", shorter(OPTIONS, "pathGlobFilter"))
def test_options(spark, tmp_path, other, option):
    value, itself = OPTIONS[option]
    folder = written(tmp_path, rows(pa.array(some(NEW, OLD))), rows(pa.array(some(NEW)), start=50))
    written(folder / "below", rows(pa.array(some(NEW)), start=90))
    frame = spark.read.option(option, value).parquet(str(folder))
    assert check(spark, {"a": frame, "b": other}, itself=itself) > 50


DONE = {
    "select": (True, lambda f: f.select("v", "t", "k", "n")),
    "alias": (True, lambda f: f.alias("x").select("x.n", "x.k", "x.t", "x.v")),
    "where": (None, lambda f: f.where("n > 5 AND v IS NOT NULL")),
    "limit": (False, lambda f: f.orderBy("n").limit(7)),
    "with": (None, lambda f: f.withColumn("v", F.col("v") + 1)),
    "constant": (None, lambda f: f.withColumn("v", F.lit(1))),
    "exchange": (None, lambda f: f.selectExpr("t AS n", "n AS t", "k", "v")),
    "rename": (None, lambda f: f.select("n", "k", "t").withColumn("v", F.col("t"))),
    "cast": (None, lambda f: f.withColumn("v", F.col("v").cast("string"))),
    "distinct": (False, lambda f: f.distinct()),
    "sample": (False, lambda f: f.sample(0.5, seed=3)),
    "union": (False, lambda f: f.union(f)),
    "drop nulls": (None, lambda f: f.dropna()),
    "fill nulls": (None, lambda f: f.fillna(0)),
    "own join": (False, lambda f: f.join(f.select("n"), "n")),
    "group": (False, lambda f: f.groupBy("n", "k", "t").agg(F.max("v").alias("v"))),
    "explode": (False, lambda f: f.withColumn("x", F.explode(F.array(F.lit(1), F.lit(2))))),
    "place": (False, lambda f: f.select("n", "k", "t", F.col("_metadata.row_index").alias("v"))),
    "file": (False, lambda f: f.withColumn("v", F.regexp_extract(F.input_file_name(), "(.*)", 1))),
    "python": (False, lambda f: f.mapInArrow(lambda parts: parts, f.schema)),
    "window": (False, lambda f: f.selectExpr("n", "k", "t", "sum(v) OVER (PARTITION BY k) AS v")),
    "scalar": (False, lambda f: f.where(f.n > f.select(F.min("n")).scalar())),
    "checkpoint": (False, lambda f: f.localCheckpoint()),
}


@pytest.fixture(scope="module")
def plain(spark, tmp_path_factory):
    return spark.read.parquet(str(written(tmp_path_factory.mktemp("plain"), rows(SMALL))))


@pytest.mark.parametrize("done", shorter(DONE, "exchange"))
def test_what_is_done_with_a_frame(spark, plain, other, done):
    itself, change = DONE[done]
    assert check(spark, {"a": change(plain), "b": other}, itself=itself) > 10


# Queries


@pytest.fixture(scope="module")
def sides(spark, tmp_path_factory):
    """Both sides with columns of all plain types; one has two files."""
    folder = tmp_path_factory.mktemp("sides")
    frames = {"a": rows(**PLAIN), "b": rows(start=3, **PLAIN)}
    a = written(folder / "a", frames["a"])
    b = written(folder / "b", frames["b"].slice(0, 3), frames["b"].slice(3))
    return {"a": spark.read.parquet(str(a)), "b": spark.read.parquet(str(b))}


NEARER = NEAR.partition("ON ")[2] + " AND a.v < b.v"
PAIRS = "SELECT a.n AS i, b.n AS j FROM {a} a JOIN {b} b ON"
QUERIES = {
    "left": f"SELECT a.n AS i, b.n AS j, b.text FROM {{a}} a LEFT JOIN {{b}} b ON {NEARER}",
    "full": f"SELECT a.n AS i, b.n AS j, a.d, b.day FROM {{a}} a FULL JOIN {{b}} b ON {NEARER}",
    "anti": f"SELECT a.n AS i, a.p9 FROM {{a}} a LEFT ANTI JOIN {{b}} b ON {NEARER} AND b.ok",
    "semi": f"SELECT a.n AS i, a.raw FROM {{a}} a LEFT SEMI JOIN {{b}} b ON {NEARER} AND b.ok",
    "groups": f"SELECT a.text, count(*) AS n, max(b.d) AS m, sum(b.v) AS s FROM {NEAR} "
    "GROUP BY a.text",
    "groups of doubles": f"SELECT a.d, count(*) AS n FROM {NEAR} GROUP BY a.d",
    "one group": f"SELECT count(*) AS n, max(b.at) AS m FROM {NEAR}",
    "distinct": f"SELECT DISTINCT a.d, b.text FROM {NEAR}",
    "where": f"SELECT a.n AS i, b.n AS j FROM {NEAR} WHERE a.d > 0 AND b.text <= 'é' AND NOT b.ok",
    "where times": f"SELECT a.n AS i, b.n AS j FROM {NEAR} WHERE a.day < DATE'2000-01-01' "
    "AND b.at > TIMESTAMP'2000-01-01 01:30:00'",
    "where it is NULL": f"SELECT a.n AS i, b.n AS j FROM {NEAR} WHERE a.p9 IS NULL OR b.d = 0",
    "equal doubles": f"{PAIRS} a.d = b.d AND b.t BETWEEN a.t - 60 AND a.t + 60",
    "equal texts": f"{PAIRS} a.text <=> b.text AND b.t BETWEEN a.t - 60 AND a.t + 60",
    "computed": f"SELECT a.n + b.n AS i, concat(a.text, b.text) AS x, a.d / 2 AS h FROM {NEAR}",
    "same name": f"SELECT a.n AS i, b.n AS j FROM {NEAR.replace('{b}', '{a}')}",
    "around": f"WITH c AS (SELECT n, v FROM {{b}} WHERE v > 5) SELECT p.i, p.w, c.v AS x FROM "
    f"({TWO}) p JOIN c ON p.j = c.n ORDER BY p.i, x LIMIT 9",
}


@pytest.mark.parametrize("query", shorter(QUERIES, "full", "groups"))
def test_queries(spark, sides, query):
    assert check(spark, sides, QUERIES[query], itself=None if query == "around" else True) > 0


@pytest.mark.parametrize("name", shorter(["at", "wall", "day"]))
def test_times_of_windows(spark, sides, name):
    """Rows without a time stay rows of a FULL join."""
    unit = "DAYS" if name == "day" else "MINUTES"
    on = f"b.{name} BETWEEN a.{name} - INTERVAL 20 {unit} AND a.{name} + INTERVAL 20 {unit}"
    text = (
        f"SELECT a.n AS i, b.n AS j, a.{name} FROM {{a}} a FULL JOIN {{b}} b ON a.k = b.k AND {on}"
    )
    assert check(spark, sides, text, itself=True, time={"a": name, "b": name}) > ROWS


@slow
@pytest.mark.parametrize("query", ["full", "anti", "groups"])
def test_files_in_parts(spark, sides, query):
    key = "spark.penstock.batch.partRows"
    spark.conf.set(key, "3")
    try:
        assert check(spark, sides, QUERIES[query], itself=True) > 0
    finally:
        spark.conf.unset(key)


PLACES = {
    "rows": ("a.k < b.k", {"rows": {"a": 5, "b": 7}}),
    "rows of keys": ("a.k = b.k", {"rows": {"a": 5, "b": 7}}),
    "ordered rows": ("a.k < b.k", {"rows": {"a": 5, "b": 7}, "ordered": True}),
    "ordered": ("a.k = b.k AND b.t BETWEEN a.t - 6 AND a.t + 6", {"ordered": True}),
}


@pytest.mark.parametrize("case", shorter(PLACES, "ordered"))
def test_places_in_files(spark, tmp_path, case):
    """Equal times are in the order of rows that Spark has, which begins with the largest file."""
    on, options = PLACES[case]
    frames = []
    for name, start in (("a", 0), ("b", 1000)):
        ties = pa.array(some(3, 3, 9, 4))
        tables = [rows(start=start + 100 * n).set_column(2, "t", ties) for n in range(3)]
        written(tmp_path / name, tables[0].slice(0, 4), tables[1], tables[2].slice(0, 9))
        frames.append(tmp_path / name)
    own = {n: spark.read.parquet(str(f)) for n, f in zip("ab", frames, strict=True)}
    # An option that changes nothing, but with which Spark reads.
    reader = spark.read.option("pathGlobFilter", "*")
    by_spark = {n: reader.parquet(str(f)) for n, f in zip("ab", frames, strict=True)}
    text = f"SELECT a.n AS i, b.n AS j FROM {{a}} a JOIN {{b}} b ON {on}"
    of_explain = {name: value for name, value in options.items() if name != "ordered"}
    assert not reads(spark, by_spark, text, **of_explain)
    found, wanted = (
        [tuple(row) for row in joined(spark, f, text, **options).collect()] for f in (own, by_spark)
    )
    assert len(wanted) > 20
    if options.get("ordered"):
        assert found == wanted
    assert Counter(found) == Counter(wanted)


# Files that change


def cached(spark, folder, frame, other):
    frame.cache().count()
    return frame


def cached_after_a_look(spark, folder, frame, other):
    check(spark, {"a": frame, "b": other}, itself=True)
    return cached(spark, folder, frame, other)


def equal_cached(spark, folder, frame, other):
    check(spark, {"a": frame, "b": other}, itself=True)
    spark.read.parquet(str(folder)).cache().count()
    return frame


def under_a_select(spark, folder, frame, other):
    cached(spark, folder, frame, other)
    return frame.select("v", "k", "t", "n")


def uncached(spark, folder, frame, other):
    cached(spark, folder, frame, other)
    joined(spark, {"a": frame, "b": other}).collect()
    return frame.unpersist(blocking=True)


CACHES = (cached, cached_after_a_look, equal_cached, under_a_select, uncached)


@pytest.mark.parametrize("cache", shorter(CACHES, equal_cached))
def test_caches(spark, tmp_path, other, cache):
    """Spark answers from a cache, whatever became of the files."""
    frame = spark.read.parquet(str(written(tmp_path)))
    try:
        frames = {"a": cache(spark, tmp_path, frame, other), "b": other}
        written(tmp_path, rows(start=500))
        # Not through SQL, which makes a view: Spark drops what is cached of it with the view.
        a, b = frames["a"].alias("a"), other.alias("b")
        pairs = a.join(b, F.expr(NEAR.partition("ON ")[2])).selectExpr(
            "a.n AS i", "a.v AS v", "b.n"
        )
        expected = counted(pairs.toArrow())
        is_old = "(0, 0, 0)" in expected
        assert is_old is (cache is not uncached)
        assert not (is_old and reads(spark, frames))
        assert counted(joined(spark, frames).toArrow()) == expected
        assert expected.total() > 50
    finally:
        spark.catalog.clearCache()


def test_a_cache_that_comes_after_the_call(spark, tmp_path, other):
    """Spark finds the cache, since it plans a DataFrame when its rows are wanted.

    A task that reads files itself has no rows rather than others.
    """
    frame = spark.read.parquet(str(written(tmp_path)))
    frames = {"a": frame, "b": other}
    found, expected = joined(spark, frames), spark.sql(ONE, **frames)
    try:
        frame.cache().count()
        written(tmp_path, rows(start=500))
        assert outcome(found) == REFUSED
        assert outcome(joined(spark, frames)) == outcome(expected)
    finally:
        spark.catalog.clearCache()


def by_spark_of_old(spark, folder: Path) -> Path:
    """A file with a date of the year 1500 as Spark wrote it before version 3."""
    with setting(spark, f"{REBASE}Write", "LEGACY"):
        old = spark.createDataFrame(rows().drop(["v"])).withColumn("v", F.expr(f"date'{OLD}'"))
        old.coalesce(1).write.parquet(str(folder))
    return next(folder.glob("*.parquet"))


#: What was in the file, and what comes in its place.
CHANGES = {
    "values": (rows(), rows(start=500)),
    "more": (rows(), pa.concat_tables([rows()] * 5)),
    "fewer": (pa.concat_tables([rows()] * 5), rows()),
    "no value": (rows(), rows().drop(["v"])),
    "upper case": (rows(), rows().rename_columns(["N", "K", "T", "V"])),
    "digits": (rows(), rows(pa.array(some("12")))),
    "double": (rows(), rows(pa.array(some(12.0)))),
    "long": (rows(), rows(pa.array(some(12)))),
    "bool": (rows(), rows(pa.array(some(True)))),
    "unsigned": (rows(BIG), rows(ODD["u32"])),
    "struct": (rows(), rows(ODD["pair"])),
    "bytes": (rows(pa.array(some("a"))), rows(pa.array(some(b"\xff")))),
    "number": (rows(pa.array(some("a"))), rows()),
    "finer": (rows(CENTS), rows(CENTS.cast(pa.decimal128(9, 3)))),
    "milliseconds": (rows(shown(1, "us", "UTC")), rows(shown(10**12, "ms", "UTC"))),
    "wall": (rows(shown(1, "us", "UTC")), rows(shown(1, "us"))),
    "day": (rows(shown(1, "us", "UTC")), rows(PLAIN["day"])),
    "calendar": (rows(PLAIN["day"]), by_spark_of_old),
}
SHORT = [("values", True), ("digits", True), ("calendar", True), ("calendar", False)]


@pytest.mark.parametrize(
    ("change", "after_the_call"), shorter([(c, a) for c in CHANGES for a in (False, True)], *SHORT)
)
def test_files_that_are_replaced(spark, tmp_path, other, change, after_the_call):
    """Between two calls, or between a call and its task."""
    before, new = CHANGES[change]
    folder = written(tmp_path / "own", before)
    frames = {"a": spark.read.parquet(str(folder)), "b": other}
    assert reads(spark, frames)
    found = joined(spark, frames)
    if not after_the_call:
        found.collect()
    if callable(new):
        shutil.copy(new(spark, tmp_path / "new"), folder / "0.parquet")
    else:
        written(folder, new)
    check_outcome(spark, frames, found if after_the_call else None)


CUTS = ("deleted", 0, 3, 100, -1, -8, -100, "header")


@pytest.mark.parametrize(
    ("left", "after"),
    shorter([(n, a) for n in CUTS for a in ("frame", "call")], ("deleted", "call")),
)
def test_files_that_are_damaged(spark, tmp_path, other, left, after):
    """Deleted, cut, or with zeros in the first page's header, which the end knows nothing of."""
    folder = written(tmp_path, rows(), rows(start=50))
    frames = {"a": spark.read.parquet(str(folder)), "b": other}
    found = joined(spark, frames) if after == "call" else None
    file = folder / "1.parquet"
    whole = file.read_bytes()
    if left == "deleted":
        file.unlink()
    else:
        file.write_bytes(b"PAR1" + bytes(36) + whole[40:] if left == "header" else whole[:left])
    assert check_outcome(spark, frames, found) == REFUSED


DAMAGES = {
    "ignoreCorruptFiles": lambda file: file.write_bytes(b"x" * 99),
    "ignoreMissingFiles": Path.unlink,
}


@slow
@pytest.mark.parametrize("after", ["frame", "call"])
@pytest.mark.parametrize("ignored", DAMAGES)
def test_files_that_spark_ignores(spark, tmp_path, other, ignored, after):
    folder = written(tmp_path, rows(), rows(start=50))
    frames = {"a": spark.read.parquet(str(folder)), "b": other}
    with setting(spark, f"spark.sql.files.{ignored}", "true"):
        found = joined(spark, frames) if after == "call" else None
        DAMAGES[ignored](folder / "1.parquet")
        assert check_outcome(spark, frames, found) != REFUSED


@slow
def test_files_whose_checksum_is_wrong(spark, tmp_path, other):
    """Spark writes checksums beside its files, and refuses a file with another one."""
    other.coalesce(1).write.option("compression", "none").parquet(str(tmp_path / "own"))
    frames = {"a": spark.read.parquet(str(tmp_path / "own")), "b": other}
    assert check(spark, frames, itself=True) > 50
    file = next((tmp_path / "own").glob("*.parquet"))
    column = pq.read_metadata(file).row_group(0).column(3)
    content = bytearray(file.read_bytes())
    end = (column.dictionary_page_offset or column.data_page_offset) + column.total_compressed_size
    content[end - 3] ^= 1
    file.write_bytes(content)
    assert outcome(spark.sql(ONE, **frames)) == REFUSED
    assert outcome(joined(spark, frames)) == REFUSED


@slow
@pytest.mark.parametrize("how", ["append", "overwrite"])
def test_spark_writes_into_the_folder(spark, tmp_path, other, how):
    """The DataFrame keeps the files that were there when it was made."""
    frames = {"a": spark.read.parquet(str(written(tmp_path))), "b": other}
    found = joined(spark, frames)
    other.where("n < 5").write.mode(how).parquet(str(tmp_path))
    check_outcome(spark, frames, found)
    check_outcome(spark, frames)
    frames["a"] = spark.read.parquet(str(tmp_path))
    assert check(spark, frames, itself=True) > 10
