"""Hostile texts in every place of a query: ``python -m tests.fuzz --hostile 100000``.

Each word, name, number, text and sign of queries is replaced by text that tries to leave its
quotes, to read a file, to make one, and to begin a second statement. The queries are those of
``tests/sql`` and ``docs/joins/sql.md``, a call of each function that the parser knows and the
translation takes, and :data:`FORMS`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import monotonic

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError

import penstock
from penstock.around.duckdb_sql.translation import _BY_NAME, _REWRITTEN, _SAME
from penstock.errors import PenstockError
from penstock.query.dialect import Penstock
from penstock.query.operators import BY_TYPE
from penstock.query.parse import parse, with_room
from tests.penstock.kit.duckdb_text import text_and_calls

ROOT = Path(__file__).parents[2]
#: Stands in each hostile text; may stand in DuckDB's text within quotes only.
MARK = "canary7q"
#: What the canary file says; no row may.
SECRET = "the canary has been read"
TIMES = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "t": TIMES,
        "d": pa.date32(),
        "x": pa.float64(),
        "s": pa.string(),
        "l": pa.list_(pa.int64()),
        "p": pa.struct({"f": pa.int64()}),
        "m": pa.map_(pa.string(), pa.int64()),
    }
)
TABLE = pa.table(
    {
        "id": [1, 2],
        "t": pa.array([10, 90], TIMES),
        "d": pa.array([1, 2], pa.date32()),
        "x": [1.5, None],
        "s": ["a", "b"],
        "l": [[1, 2], None],
        "p": [{"f": 1}, {"f": 2}],
        "m": pa.array([[("k", 1)], []], SCHEMA.field("m").type),
    },
    SCHEMA,
)
#: Places that no function's call has, over a table ``a`` (and ``b``) of :data:`SCHEMA`.
FORMS = (
    "SELECT CAST(x AS DECIMAL(10, 2)) AS y, TRY_CAST(s AS INT) AS z FROM a ORDER BY id",
    "SELECT EXTRACT(HOUR FROM t) AS y, t + INTERVAL '3' DAY AS z FROM a ORDER BY id",
    "SELECT timestampadd(HOUR, 1, t) AS y, timestampdiff(DAY, t, t) AS z FROM a ORDER BY id",
    "SELECT date_trunc('hour', t) AS y, trunc(d, 'MM') AS z, date_format(t, 'yyyy-MM-dd') AS w "
    "FROM a ORDER BY id",
    "SELECT datediff(HOUR, t, t) AS y, t + INTERVAL 1 HOUR 2 MINUTES AS z FROM a ORDER BY id",
    "SELECT TRIM(BOTH 'x' FROM s) AS y, s LIKE 'a!%' ESCAPE '!' AS z, s RLIKE 'a+' AS w "
    "FROM a ORDER BY id",
    "SELECT sum(x) OVER (PARTITION BY s ORDER BY t DESC NULLS LAST ROWS BETWEEN 2 PRECEDING AND "
    "CURRENT ROW) AS y, lag(x, 1) OVER w AS z FROM a WINDOW w AS (ORDER BY t) ORDER BY id",
    "SELECT window(t, '10 seconds', '5 seconds') AS w, count(*) AS n FROM a GROUP BY "
    "window(t, '10 seconds', '5 seconds') ORDER BY n",
    "SELECT session_window(t, '5 seconds') AS w, count(*) AS n FROM a GROUP BY "
    "session_window(t, '5 seconds') ORDER BY n",
    "SELECT p.f, p['f'] AS y, l[0] AS z, m['k'] AS w, transform(l, e -> e + 1) AS v "
    "FROM a ORDER BY id",
    "SELECT named_struct('q', x, 'r', s) AS y, struct(x AS q) AS z, array(1, 2) AS w "
    "FROM a ORDER BY id",
    "SELECT id, e FROM a LATERAL VIEW OUTER explode(l) u AS e ORDER BY id",
    "SELECT u.e FROM a, unnest(a.l) AS u(e) ORDER BY 1",
    "WITH c(q) AS (SELECT x FROM a) SELECT q FROM c UNION ALL SELECT id FROM a ORDER BY 1 LIMIT 3",
    "SELECT s, count(*) FILTER (WHERE x > 1) AS n FROM a GROUP BY ROLLUP(s) HAVING count(*) > 0",
    "SELECT * EXCEPT (x) FROM a TABLESAMPLE (50 PERCENT) ORDER BY id LIMIT 2 OFFSET 1",
    "SELECT id FROM a TIMESTAMP AS OF '2024-05-06' ORDER BY id",
    "SELECT /*+ BROADCAST(a) */ id, r'b\\d' AS y, X'41' AS z, 1.5BD AS w, :v AS v FROM a "
    "ORDER BY id",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) AS y FROM a",
    "SELECT CASE s WHEN 'a' THEN 1 ELSE 2 END AS y, s IN ('a', 'b') AS z FROM a QUALIFY "
    "row_number() OVER (ORDER BY id) < 3",
    "SELECT from_utc_timestamp(t, 'Europe/Berlin') AS y, s COLLATE UTF8_LCASE AS z FROM a",
    "SELECT * FROM a PIVOT (sum(x) FOR s IN ('a' AS q, 'b'))",
    "SELECT id FROM VALUES (1, 'x') AS v(id, s) ORDER BY id",
    "SELECT a.id, lower(b.s) AS y FROM a JOIN b ON b.t BETWEEN a.t - INTERVAL 5 SECONDS AND "
    "a.t + INTERVAL 5 SECONDS AND a.s LIKE 'x%' ORDER BY a.id",
    "SELECT a.id, window(a.t, '1 hour').start AS w FROM a LEFT JOIN b ON b.t = a.t AND "
    "date_trunc('day', a.t) = DATE '2024-05-06'",
)
_TAKEN = {exp.Anonymous, *_SAME, *_REWRITTEN, *BY_TYPE}
#: What DuckDB's lexer takes for names and texts.
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"")
_SQL_BLOCK = re.compile(r"^```sql\n(.*?)^```", re.DOTALL | re.MULTILINE)


@cache
def queries() -> tuple[str, ...]:
    """Queries whose places are replaced."""
    files = sorted((ROOT / "tests/sql").glob("*.sql"))
    written = [re.sub(r"^--.*\n", "", file.read_text("utf-8"), flags=re.M) for file in files]
    written += _SQL_BLOCK.findall((ROOT / "docs/joins/sql.md").read_text("utf-8"))
    return (*FORMS, *_calls(), *written)


def _calls() -> Iterator[str]:
    """A call of each function that the translation takes."""
    for name in sorted({*map(str.lower, Penstock.Parser.FUNCTIONS), *_BY_NAME}):
        for args in ("", "s", "x", "t", "l", "x, 2", "s, 'a'", "l, 1", "s, 1, 'a'", "s, 'a', 'b'"):
            text = f"SELECT {name}({args}) AS y FROM a"
            try:
                call = parse(text).find(exp.Func)
                if type(call) not in _TAKEN:
                    break
                in_duckdb(text)
            except PenstockError:
                continue
            except Exception:  # found by the check of the text as it stands
                pass
            yield text
            break


def in_duckdb(text: str) -> str:
    """The text that DuckDB would get if it ran all of a query."""
    tables = dict.fromkeys("ab", SCHEMA)
    return with_room(lambda: text_and_calls(parse(text), tables)[0], text)


@dataclass(frozen=True)
class Folder:
    """A folder with a canary, and what it must look like after each query."""

    path: Path

    @property
    def canary(self) -> Path:
        return self.path / f"{MARK}.csv"

    def write(self) -> None:
        self.canary.write_text(f"c\n{SECRET}\n")

    def is_as_before(self) -> bool:
        return [file.name for file in self.path.iterdir()] == [self.canary.name]


def payload(rng: Random, folder: Folder, sign: str) -> str:
    """A hostile text in quotes, which it mostly does not leave for the parser."""
    canary, made = folder.canary, folder.path / f"made_{MARK}"
    read = f"(SELECT content FROM read_text('{canary}'))"
    text = rng.choice(
        [
            f"DAYS(0) FROM a; COPY (SELECT 1 AS {MARK}) TO '{made}' --",
            f"DAYS(0) AS x, content FROM read_text(lower('{canary}')) --",
            f"{MARK}; ATTACH '{made}.db' AS q; --",
            f"x' || {read} || '",
            f'x" || {read} || "',
            f'x\\" || {read} || "',
            f"x\\' || {read} || \\'",
            f"1) || {read} || ('",
            f"*/ || {read} /* {MARK}",
            f"$${MARK}$$",
            f"E'\\' || {read} --",
            f"{MARK}\0'",
            f"{canary}",
            f"{MARK}\n--\n;{MARK}",
            f"read_text('{canary}')",
            f"{{{MARK}}}{{:99999999}}%99999999s${{{MARK}}}",
            f"ps_own_{MARK}(1)",
            f"ps_word_0' ps_word_1 {MARK}",
            f'"ps_word_0" {MARK}',
            f"U&'\\0027 {MARK}",
        ]
    )
    if sign and rng.random() < 0.7:
        text = text.replace("\\", "\\\\") if sign != "`" else text
        text = text.replace(sign, 2 * sign)
    return f"{sign}{text}{sign}"


@cache
def places() -> tuple[tuple[str, int, int], ...]:
    """The words, names, numbers and texts of :data:`FORMS`: the query, and where one is."""
    return tuple(
        (text, one.start, one.end + 1)
        for text in FORMS
        for one in Penstock().tokenize(text)
        if one.text[:1].isalnum()
    )


def mutated(seed: int, folder: Folder) -> str:
    """A query with a hostile text in the place of one of its words, or two.

    Even seeds take the places of :data:`FORMS` in turn, in each way of quoting; odd ones any sign
    of any query.
    """
    rng = Random(seed)
    if seed % 2 == 0:
        turn, place = divmod(seed // 2, len(places()))
        text, start, end = places()[place]
        return text[:start] + payload(rng, folder, "`'\"\0"[turn % 4].strip("\0")) + text[end:]
    text = rng.choice(queries())
    for _ in range(1 if rng.random() < 0.8 else 2):
        try:
            tokens = Penstock().tokenize(text)
        except SqlglotError:  # the first text has left its quotes
            return text
        one = rng.choice(tokens)
        sign = rng.choice(["", "'", '"', "`"])
        text = text[: one.start] + payload(rng, folder, sign) + text[one.end + 1 :]
    return text


def check(text: str) -> str:
    """What is wrong with the text that DuckDB would get of a query; empty if all is well."""
    try:
        written = in_duckdb(text)
    except PenstockError:
        return ""
    except Exception as error:  # whatever it is, it is not ours
        return f"{type(error).__name__}: {error}"
    rest = _QUOTED.sub(" ", written)
    for sign in (MARK, ";", "--", "/*", "$", "'", '"', "\0"):
        if sign in rest.lower():
            return f"{sign!r} stands unquoted in {written}"
    return ""


def run(text: str, folder: Folder) -> str:
    """What is wrong when tables and streams are asked a query; empty if all is well."""
    tables = dict.fromkeys("ab", TABLE)
    given = [table for table in tables if re.search(rf"\b{table}\b", text)]
    time = dict.fromkeys(given, "t") if "JOIN" in text else {}
    for ask in (_of_tables, _of_streams):
        try:
            answer = ask(text, tables, time)
        except PenstockError as error:
            answer = str(error)
        except Exception as error:  # whatever it is, it is not ours
            return f"{ask.__name__}: {type(error).__name__}: {error}"
        if SECRET in answer:
            return f"{ask.__name__} read the canary: {answer}"
        if not folder.is_as_before():
            return f"{ask.__name__} made a file"
    return ""


def _of_tables(text: str, tables: dict[str, pa.Table], time: dict[str, str]) -> str:
    return str(penstock.sql(text, tables, time=time).to_pylist())


def _of_streams(text: str, tables: dict[str, pa.Table], time: dict[str, str]) -> str:
    schemas = {name: table.schema for name, table in tables.items()}
    with penstock.stream(text, schemas, time=time, disorder=0) as stream:
        return str(stream.schema)


def campaign(queries_: int, first: int, seconds: float) -> Iterator[str]:
    """Check so many queries, and run each hundredth; of each, what is wrong, or nothing."""
    end = monotonic() + seconds
    with TemporaryDirectory() as made:
        folder = Folder(Path(made))
        folder.write()
        for seed in range(first, first + queries_):
            text = mutated(seed, folder)
            wrong = check(text) or (run(text, folder) if seed % 100 == 0 else "")
            yield f"seed {seed}: {wrong}\n{text}" if wrong else ""
            if monotonic() > end:
                return
