"""Run a case in Penstock and compare it with what the evaluator says."""

import math
import re
import traceback
from contextlib import suppress
from fractions import Fraction
from random import Random

import pyarrow as pa

import penstock
from tests.own_queries.aggregates import Near, OneOf
from tests.own_queries.expressions import Refused, group_key
from tests.own_queries.queries import Case
from tests.own_queries.values import kinds_of, plain

LEAKS = re.compile(r"(Binder|Parser|Range|Conversion|Input) Error|PS_|__|instant[(]|wall[(]")


def run(case: Case, seed: int) -> pa.Table:
    """Run a case in its mode."""
    tables = {name: d.arrow() for name, d in case.data.items()}
    sql = case.query.sql()
    used = {n: t for n, t in tables.items() if f" {n} " in sql}
    if case.mode == "tables":
        return penstock.sql(sql, used, **case.options)
    options = dict(case.options)
    if case.mode == "workers":
        options["workers"] = 2
        if seed % 2:
            return penstock.sql(sql, used, **options)
    return push(sql, used, options, Random(seed))


def push(sql: str, tables: dict[str, pa.Table], options: dict, rnd: Random) -> pa.Table:
    """Push the rows of tables in random cuts."""
    sources = tables
    stream = penstock.stream(sql, {n: t.schema for n, t in tables.items()}, **options)
    got = []
    places = dict.fromkeys(sources, 0)
    try:
        while places:
            name = rnd.choice(list(places))
            size = rnd.choice([1, 2, 5, 30])
            batch = sources[name].slice(places[name], size)
            stream.push(name, batch)
            places[name] += size
            if places[name] >= len(sources[name]):
                del places[name]
            if rnd.random() < 0.3:
                got.append(stream.poll())
        late = stream.late()
        if late and any(len(t) for t in (late.values() if isinstance(late, dict) else [late])):
            raise AssertionError(f"rows in order are late: {late}")
        got.append(stream.close())
    except BaseException:
        with suppress(Exception):
            stream.close()
        raise
    return pa.concat_tables(
        [t if isinstance(t, pa.Table) else pa.Table.from_batches([t]) for t in got if t is not None]
    )


def equal(expected, got) -> bool:
    """Say whether a value is the expected one."""
    if isinstance(expected, OneOf):
        return any(equal(v, got) for v in expected.values)
    if expected is None or got is None:
        return expected is None and got is None
    if isinstance(expected, Near):
        a, b, slack = expected.value, got, expected.slack
        return a == b or (math.isnan(a) and math.isnan(b)) or abs(a - b) <= slack + 1e-9 * abs(a)
    if isinstance(expected, bool) != isinstance(got, bool):
        return False
    if isinstance(expected, float):
        return isinstance(got, float) and group_key(expected) == group_key(got)
    return expected == got


def same_rows(expected: list[tuple], got: list[tuple]) -> str | None:
    """Compare multisets of rows; say how they differ."""
    if len(expected) != len(got):
        return f"{len(got)} rows, not {len(expected)}"
    loose = {p for row in expected for p, v in enumerate(row) if isinstance(v, Near | OneOf)}

    def key(row):
        return tuple(repr(_whole(group_key(v))) for p, v in enumerate(row) if p not in loose)

    buckets: dict = {}
    for row in got:
        buckets.setdefault(key(row), []).append(row)
    for row in expected:
        rest = buckets.get(key(row), [])
        place = next((i for i, other in enumerate(rest) if all(map(equal, row, other))), None)
        if place is None:
            return f"no row {row}; near: {rest[:3]}"
        rest.pop(place)
    return None


def _whole(value):
    """Return a whole fraction as an integer."""
    return int(value) if isinstance(value, Fraction) and value.denominator == 1 else value


def broken(table: pa.Table, rnd: Random) -> pa.Table:
    """Return a table with one value changed, or a row less: the comparison must notice."""
    if not len(table):
        return table
    if rnd.random() < 0.3 or any(c.null_count == len(c) for c in table.columns):
        return table.slice(1)
    column, row = rnd.randrange(table.num_columns), rnd.randrange(len(table))
    values = table.column(column).to_pylist()
    values[row] = next((v for v in values if v is not None), None) if values[row] is None else None
    of = table.schema.field(column)
    return table.set_column(column, of, pa.array(values, of.type))


def verdict(case: Case, seed: int, breaking: bool = False) -> tuple[str, str]:
    """Run and compare: (rows, refused, leak, error or wrong, why)."""
    expects = None
    try:
        expected = case.query.tuples(case.data)
    except Refused as error:
        expects = str(error)
    try:
        table = run(case, seed)
        if breaking:
            table = broken(table, Random(seed))
    except penstock.PenstockError as error:
        text = f"{type(error).__name__}: {error}"
        if expects is None and "overflows" in text and "average" not in text:
            return "wrong", text
        return "leak" if LEAKS.search(text) else "refused", text
    except Exception:
        return "error", traceback.format_exc()
    if expects is not None:
        return "wrong", f"rows in spite of {expects}"
    return judge(case, expected, table)


def judge(case: Case, expected: list[tuple], table: pa.Table) -> tuple[str, str]:
    """Compare names, types, order and rows."""
    query = case.query
    names = [n for n, _ in query.columns]
    if table.column_names != names:
        return "wrong", f"names {table.column_names}, not {names}"
    for (name, of), got in zip(query.columns, table.schema.types, strict=True):
        if of.kind not in kinds_of(got) and not pa.types.is_null(got):
            return "wrong", f"type of {name}: {got}, not {of.kind}"
        if of.kind == "dec" and (of.digits, of.scale) != (got.precision, got.scale):
            return "wrong", f"type of {name}: {got}, not decimal({of.digits}, {of.scale})"
    columns = [plain(c) for c in table.columns]
    got = list(zip(*columns, strict=True)) if columns else []
    problem = same_rows(expected, got)
    if (
        problem is None
        and query.order
        and not any(e.approx for p, _, _ in query.order for e in [query.items[p][0]])
    ):
        keys = [[_whole(group_key(row[p])) for p, _, _ in query.order] for row in got]
        if keys != [[_whole(group_key(row[p])) for p, _, _ in query.order] for row in expected]:
            problem = "another order"
    return ("wrong", problem) if problem else ("rows", str(len(got)))


def reason(text: str) -> str:
    """Return a refusal's text without names and numbers, under which it is counted."""
    return re.sub(r"\b[a-z]\.\w+|\d+|'[^']*'|\"[^\"]*\"", "_", text.split("\n")[0])[:110]
