"""Functions of texts and times give Spark's values, or are refused: of random rows and NULL."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from random import Random

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

import penstock
from penstock.errors import QueryError
from tests.kit.effort import effort
from tests.spark_bridge.test_time_zones import ZONE, setting

TYPES = {
    **dict.fromkeys(("id", "big"), pa.int64()),
    **dict.fromkeys(("i", "j"), pa.int32()),
    **dict.fromkeys(("s", "p", "q", "si", "sf", "st"), pa.string()),
    **dict.fromkeys(("t", "t2"), pa.timestamp("us", "UTC")),
    **dict.fromkeys(("n", "n2"), pa.timestamp("us")),
    **dict.fromkeys(("d", "d2"), pa.date32()),
    "b": pa.bool_(),
    "f": pa.float64(),
    "m": pa.decimal128(10, 2),
}
SIGNS = [*"aaabbbcAB1209    -_%.,'\t&$|éÉñüςı😀中٣"]
DAYS = [
    *("0001-01-02", "9990-12-31", "1970-01-01", "1969-12-31", "2000-02-29", "1900-02-28"),
    *("2024-02-29", "2023-12-31", "2021-01-01", "1582-10-04", "1582-10-15", "2020-01-31"),
]
TEXTS = r"""
lower(s); upper(s); lcase(s); ucase(s); initcap(q); trim(s); ltrim(s); rtrim(s); ltrim('a', s)
trim(BOTH 'a' FROM s); trim(LEADING ' a' FROM s); trim(TRAILING 'b' FROM s); rtrim('b', s)
length(s); char_length(s); len(s); reverse(s); repeat(s, 2); repeat(s, i); repeat(s, 0)
substring(s, 2); substring(s, 2, 3); substring(s, 0, 2); substring(s, -3); substring(s, -3, 2)
substr(s, -4, 3); substr(s, coalesce(i, 1), coalesce(j, 2)); substring(s FROM 2 FOR 2)
left(s, 2); left(s, 0); right(s, 2); right(s, -1); left(s, coalesce(i, 1))
replace(s, 'a', 'bc'); replace(s, p, '-'); replace(s, '', 'x'); replace(s, p, q)
concat(s, p, '-'); concat(s, i); concat(s, d); concat(s, b); concat(s, t); concat(s, f); s || p
s || '-' || i; concat_ws('-', s, p); concat_ws(p, s, q); concat_ws('', s, i); concat_ws(',', s, d)
lpad(s, 5, '*'); rpad(s, 5, '*'); lpad(s, 5); rpad(s, 5); lpad(s, 7, 'ab'); rpad(s, i, 'xy')
instr(s, 'a'); instr(s, p); instr(s, ''); locate('a', s); locate(p, s); locate('a', s, 3)
position('a' IN s); position(p, s); position('a', s, 2); contains(s, 'a'); contains(s, p)
startswith(s, 'a'); startswith(s, p); endswith(s, 'b'); endswith(s, p); contains(s, '')
split_part(s, ' ', 1); split_part(s, 'a', 2); split_part(s, 'a', -2); split_part(s, 'a', 20)
split(s, 'a')[0]; split(s, '[ab]')[0]; size(split(s, ' +')); element_at(split(s, 'a'), 1)
translate(s, 'abc', 'x'); translate(s, 'aab', 'xyz'); translate(s, 'é1', 'e'); levenshtein(s, p)
regexp_extract(s, '([a-z]+)', 1); regexp_extract(s, '(a)?(b)', 1); regexp_extract(s, '(\\d+)', 1)
regexp_extract(s, '^(.)', 1); regexp_replace(s, '[0-9]+', '#'); regexp_replace(s, '(a)(b)', '$2$1')
regexp_replace(s, '(a)', '<$0>'); regexp_replace(s, '(?i)A', '-'); regexp_replace(s, '\\s', '_')
regexp_replace(s, 'a|ab', '-'); s RLIKE '^a'; s RLIKE '^a.*b$'; s RLIKE '^.{3}$'; s RLIKE 'é'
s LIKE 'a%'; s LIKE '%a%'; s LIKE '_a%'; s LIKE '__'; s LIKE ''; s NOT LIKE 'a%'; s LIKE q
s LIKE 'a!%%' ESCAPE '!'; s ILIKE 'A%'; s ILIKE '%É%'; s LIKE ANY ('a%', '%b'); s LIKE '%😀%'
substring_index(s, 'a', 1); substring_index(s, 'a', -1); substring_index(s, 'a', i)
nvl(s, 'x'); coalesce(s, p); nullif(s, p); greatest(s, p); least(s, p); s < p; s <=> p
s IN ('a', ''); CASE s WHEN 'a' THEN 1 ELSE 2 END; if(s = '', p, s); format_number(f, 2)
CAST(i AS STRING); CAST(big AS STRING); CAST(d AS STRING); CAST(t AS STRING); CAST(n AS STRING)
CAST(f AS STRING); CAST(b AS STRING); CAST(m AS STRING); CAST(s AS VARCHAR(3)); CAST(s AS CHAR(6))
CAST(si AS INT); CAST(si AS BIGINT); CAST(si AS DOUBLE); CAST(sf AS DOUBLE); CAST(sf AS FLOAT)
CAST(sf AS DECIMAL(10,2)); CAST(st AS TIMESTAMP); CAST(st AS TIMESTAMP_NTZ); TRY_CAST(si AS INT)
CAST(b AS INT); CAST(i AS BOOLEAN); CAST(f AS INT); CAST(f AS DECIMAL(12,2))
substring(s, i); substring(s, i, 2); substring(s, i, j); substr(s, -2, j); left(s, i); right(s, i)
substring_index(s, 'a', 0); locate('', s, 3); split_part(s, '', 1); split_part(s, '', 2)
split_part(s, '', -1); s LIKE '%\\%%'; s LIKE '%\\_%'; s LIKE '%\\\\%'; trim(concat('\u00a0', s))
reverse(concat('e\u0301', s)); CAST(date_trunc('HOUR', t) AS STRING); concat_ws('-', d, t)
concat(date_trunc('HOUR', t)); TRY_CAST(sf AS INT); TRY_CAST(s AS INT); TRY_CAST(s AS DOUBLE)
TRY_CAST(sf AS DOUBLE); CAST(' 12 ' AS INT)
"""
#: Their types in Spark.
DDL = (
    "id long, big long, i int, j int, s string, p string, q string, si string, sf string, "
    "st string, t timestamp, t2 timestamp, n timestamp_ntz, n2 timestamp_ntz, "
    "d date, d2 date, b boolean, f double, m decimal(10,2)"
)
#: ``x`` and ``x2`` are timestamps with and without a zone, and dates.
TIMES = """
year(x); month(x); day(x); dayofmonth(x); hour(x); minute(x); second(x); quarter(x); dayofyear(x)
dayofweek(x); weekday(x); weekofyear(x); last_day(x); to_date(x); date(x); to_timestamp(x)
extract(YEAR FROM x); extract(dow FROM x); extract(WEEK FROM x); extract(minute FROM x)
date_add(x, 1); date_add(x, i); date_sub(x, -31); date_sub(x, i); datediff(x, x2); date_diff(x, x2)
x < x2; greatest(x, x2); coalesce(x, x2); nullif(x, x2); CAST(x AS DATE); CAST(x AS TIMESTAMP)
CAST(x AS TIMESTAMP_NTZ); x > '2000-01-01'; x = DATE'2000-02-29'
x >= TIMESTAMP'1970-01-01 00:00:00'; x BETWEEN '1960-01-01' AND '2010-05-06'
date_format(x, 'yyyy-MM-dd HH:mm:ss'); date_format(x, 'dd/MM/yyyy'); date_format(x, 'hh:mm a')
date_format(x, 'yy-M-d'); date_format(x, 'HH:mm:ss.SSSSSS'); date_format(x, 'm')
timestampdiff(HOUR, x, x2); timestampdiff(MINUTE, x, x2); timestampdiff(SECOND, x, x2)
timestampdiff(MILLISECOND, x, x2); timestampdiff(MICROSECOND, x, x2)
"""
#: Of timestamps alone.
MOMENTS = """
x + i * INTERVAL 1 DAY; x + INTERVAL '1 02:03:04' DAY TO SECOND; x + INTERVAL '1.5' SECOND
x + INTERVAL '-90' MINUTE; x + INTERVAL 2 DAYS 3 HOURS; x - INTERVAL 13 HOUR; x + INTERVAL 1 MONTH
x - INTERVAL 13 MONTH; x - INTERVAL 1 YEAR
"""
UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
OF_UNITS = (
    *("timestampadd({u}, i, x)", "timestampadd({u}, 1, x)", "dateadd({u}, i, x)"),
    *("timestampdiff({u}, x, x2)", "datediff({u}, x, x2)"),
)
OTHERS = """
unix_seconds(t); unix_millis(t); unix_micros(t); CAST(t AS BIGINT); d + i; d - i; d + 1
t - t2 > INTERVAL 1 HOUR; CAST(CAST(t AS DATE) AS STRING); lpad(CAST(month(d) AS STRING), 2, '0')
t IN (t2, TIMESTAMP'1970-01-01 00:00:00'); CAST(t AS DOUBLE); t - t2; n - n2; d - d2
d + INTERVAL 1 DAY; d - INTERVAL 3 MONTHS; d + INTERVAL 1 YEAR; d - INTERVAL 2 WEEKS
d + INTERVAL 5 HOURS; d - d2 > INTERVAL 10 DAYS; CAST(t AS DATE) - d
t - TIMESTAMP'2000-01-01 01:00:00'
trunc(t, 'YEAR'); trunc(d, 'MM'); trunc(d, 'WEEK'); trunc(n, 'mon')
from_unixtime(i * 999983L); from_unixtime(unix_seconds(t), 'dd/MM/yyyy HH:mm'); from_unixtime(i)
timestamp_seconds(i * 999983L); timestamp_millis(i * 99999999977L); timestamp_micros(unix_micros(t))
to_timestamp(date_format(n, 'dd.MM.yyyy HH:mm:ss'), 'dd.MM.yyyy HH:mm:ss')
to_timestamp(date_format(d, 'yyyyMMdd'), 'yyyyMMdd')
to_date(date_format(d, 'MM/dd/yyyy'), 'MM/dd/yyyy')
make_timestamp(year(n), month(n), day(n), hour(n), minute(n), 5.25)
date_trunc('MM', t); date_trunc('yyyy', t); date_trunc('dd', t); date_trunc('HOUR', d)
"""
REFUSED = """
btrim(s); octet_length(s); bit_length(s); regexp_substr(s, 'a'); s RLIKE p; regexp_count(s, 'a')
regexp_instr(s, 'a'); ascii(s); chr(i); md5(s); sha1(s); sha2(s, 256); crc32(s); base64(s); hex(s)
hex(i); bin(i); conv(i, 10, 16); soundex(s); space(j); elt(2, s, p); find_in_set(s, 'a,b')
overlay(s PLACING 'x' FROM 2); format_string('%s', s); encode(s, 'utf-8'); hash(s)
nvl2(s, 'x', 'y'); substring_index(s, p, 1); array_join(split(s, 'a'), '-'); s RLIKE '(?=a)b'
dayname(t); monthname(t); add_months(d, 1); months_between(t, t2); next_day(d, 'MO')
extract(SECOND FROM t); date_part('YEAR', t); date_format(t, 'MMM dd'); date_format(t, 'SSS')
date_format(t, 'E'); date_format(t, s); to_timestamp(st, 'HH:mm'); to_timestamp(st, s)
timestamp_seconds(f); from_unixtime(m); to_date(st, 'yy-MM-dd'); unix_timestamp(st)
to_timestamp(st, 'yyyy-MM-dd HH:mm:ss.SSS'); to_date(st, 'yyyy-M-d'); make_date(2020, 1, j)
date_from_unix_date(i); t + make_interval(0, i); hour(st)
unix_date(d); split(s, 'a', 2); split(s, ''); levenshtein(s, p, 2); regexp_replace(s, '', '-')
regexp_replace(s, 'x*', '-'); regexp_replace(s, 'a', 'X', 2); regexp_replace(s, '[[:alpha:]]', '-')
regexp_replace(s, '(a)', '${1}1'); s RLIKE '(?i)σ'; s RLIKE '(?m)^a'; to_utc_timestamp(t, 'UTC')
from_utc_timestamp(t, 'UTC'); format_number(big, 0); trunc(d, 'DAY')
TRY_CAST(s AS DATE); TRY_CAST(s AS BOOLEAN)
"""


def listed(texts: str) -> list[str]:
    return [text.strip() for line in texts.strip().splitlines() for text in line.split(";")]


def time_texts() -> list[str]:
    of_units = [form.replace("{u}", unit) for form in OF_UNITS for unit in UNITS]
    found = listed(OTHERS) + [f"date_trunc('{unit}', t)" for unit in UNITS]
    for names, forms in (("tnd", listed(TIMES)), ("tn", [*listed(MOMENTS), *of_units])):
        found += [re.sub(r"\bx(2?)\b", rf"{x}\1", form) for form in forms for x in names]
    return found


def day(random: Random) -> datetime.date:
    kind = random.random()
    if kind < 0.2:
        return datetime.date.fromisoformat(random.choice(DAYS))
    if kind < 0.4:  # an end of a month
        first = datetime.date(random.randint(1890, 2100), random.randint(1, 12), 1)
        return first - datetime.timedelta(1)
    if kind < 0.9:
        return datetime.date(1950, 1, 1) + datetime.timedelta(random.randint(0, 36_000))
    return datetime.date(2, 1, 1) + datetime.timedelta(random.randint(0, 3_600_000))


def moment(random: Random) -> datetime.datetime:
    last = 86_400 * 10**6 - 1
    within = (0, 1, last, random.randint(0, last), random.randint(0, 86_399) * 10**6)
    found = datetime.datetime.combine(day(random), datetime.time())
    return found + datetime.timedelta(microseconds=random.choice(within))


def near(random: Random, time: datetime.date) -> datetime.date:
    """A day of about a month or a year later or earlier."""
    days = random.choice((31, 30, 365, 366, -31, 28, -28, 59, 1))
    return time + datetime.timedelta(days) if 10 < time.year < 9900 else time


def row(random: Random) -> dict[str, object]:
    s = "".join(random.choices(SIGNS, k=random.choice((0, 1, 2, 3, 4, 6, 8, 12))))
    start = random.randint(0, len(s))
    d, t, n = day(random), moment(random), moment(random)
    written = moment(random).replace(year=random.randint(1900, 2100), day=random.randint(1, 28))
    sides = random.choice(("{}", "{}", " {}", "{} ", "\t{}"))
    floats = (0.0, -0.0, 0.001, 9_999_999.0, random.uniform(-100, 100), random.randint(-9, 9) / 4)
    return {
        "s": s,
        "p": s[start : start + random.randint(0, 2)],
        "q": "".join(random.choices("aabbc A1_", k=random.randint(0, 6))),
        "i": random.randint(-12, 12),
        "j": random.randint(1, 28),
        "big": random.choice((random.randint(-(2**63), 2**63 - 1), random.randint(-999, 999))),
        "b": random.random() < 0.5,
        "f": random.choice(floats),
        "m": Decimal(random.randint(-(10**6), 10**6)).scaleb(-2),
        "d": d,
        "d2": random.choice((day(random), near(random, d))),
        "t": t,
        "t2": random.choice((moment(random), near(random, t))),
        "n": n,
        "n2": random.choice((moment(random), near(random, n))),
        "si": sides.format(random.choice((random.randint(-99, 99), "+7", "007", "-0"))),
        "sf": sides.format(random.choice(("1e3", "-1.5E-2", "+.5", "5.", "1.005", "-2.675"))),
        "st": random.choice(
            (written.isoformat(), written.isoformat(" "), written.date().isoformat())
        ),
    }


def table(seed: int, rows: int) -> pa.Table:
    random = Random(seed)
    found = [row(random) for _ in range(rows)]
    for number, one in enumerate(found):
        one.update({name: None for name in one if random.random() < 0.04})
        one["id"] = number
    columns = {name: [one[name] for one in found] for name in TYPES}
    return pa.table({name: pa.array(columns[name], kind) for name, kind in TYPES.items()})


def values(column: pa.ChunkedArray) -> list:
    """As Python's, but times as numbers: its own end in the year 9999."""
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if pa.types.is_date(column.type) else pa.int64())
    return column.to_pylist()


def same(ours: object, theirs: object) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float):
        return ours == theirs or abs(ours - theirs) <= np.spacing(max(abs(ours), abs(theirs)))
    return ours == theirs and isinstance(ours, bool) == isinstance(theirs, bool)


def ours_of(texts: list[str], given: pa.Table) -> pa.Table:
    outputs = ", ".join(f"{text} AS c{k}" for k, text in enumerate(texts))
    query = f"SELECT a.* FROM (SELECT id, {outputs} FROM g) a JOIN (SELECT id FROM g) b"
    how = {"time": {"a": "id", "b": "id"}, "within": 0, "time_zone": "UTC"}
    return penstock.sql(f"{query} ON a.id = b.id", {"g": given}, **how).sort_by("id")


@pytest.mark.parametrize("kind", ["texts", "times"])
def test_functions_of_texts_and_times(spark, kind):
    texts = (listed(TEXTS) if kind == "texts" else time_texts())[:: effort(1, 3)]
    given = table(5, 400)
    outputs = ", ".join(f"{text} AS c{k}" for k, text in enumerate(texts))
    with setting(spark, ZONE, "UTC"), setting(spark, "spark.sql.ansi.enabled", "true"):
        spark.createDataFrame(given, DDL).createOrReplaceTempView("texts_times")
        truth = spark.sql(f"SELECT id, {outputs} FROM texts_times").toArrow().sort_by("id")
    found = ours_of(texts, given)
    wrong = []
    for k, text in enumerate(texts):
        own, wanted = found.column(f"c{k}"), truth.column(f"c{k}")
        if str(own.type).replace("[s", "[us") == str(wanted.type):  # times of whole seconds
            own = own.cast(wanted.type)
        if pa.types.is_temporal(wanted.type) and own.type != wanted.type:
            wrong.append(f"{text}: {own.type}, Spark has {wanted.type}")
            continue
        for at, (mine, theirs) in enumerate(zip(values(own), values(wanted), strict=True)):
            if not same(mine, theirs):
                of = {
                    name: given.column(name)[at]
                    for name in re.findall(r"\w+", text)
                    if name in TYPES
                }
                wrong.append(f"{text}: {mine!r}, Spark has {theirs!r}, of {of}")
    assert not wrong, "\n".join(wrong[:40]) + f"\n{len(wrong)} in all"


def test_refused_functions():
    """What is not known to give Spark's values is not computed."""
    given = table(5, 2)
    for text in listed(REFUSED):
        with pytest.raises(QueryError):
            ours_of([text], given)
