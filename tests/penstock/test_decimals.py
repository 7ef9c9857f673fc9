"""Types and values of decimals are those of Spark's rules; Python's decimals compute the values."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.plan.band import BandForm
from penstock.plan.forms import join_form
from penstock.plan.search import search_of
from penstock.query import compile_query

COLUMNS = {
    "id": pa.int64(),
    "p": pa.decimal128(10, 2),
    "q": pa.decimal128(12, 3),
    "s": pa.decimal128(5, 5),
    "n": pa.decimal128(20, 0),
    "w": pa.decimal128(38, 10),
    "v": pa.decimal128(38, 18),
    "u": pa.decimal128(38, 2),
    "z": pa.decimal128(38, 30),
    "b": pa.int8(),
    "h": pa.int16(),
    "i": pa.int32(),
    "l": pa.int64(),
}


def _read(text: str) -> dict[str, tuple[int, ...]]:
    parts = (one.split(":") for one in text.replace("\n", " ").split(";") if one.strip())
    return {name.strip(): tuple(map(int, shape.split())) for name, shape in parts}


#: Expressions and the digits and scales that Spark's rules give them.
OF_ROWS = _read("""
    a.p + b.q: 13 3; a.p - b.q: 13 3; a.p * b.q: 23 5; a.p / b.q: 26 15; a.p % b.q: 11 3;
    a.p / (b.q + 1): 27 16; a.q / b.p: 25 14; a.s / b.s: 16 11; a.s / b.i: 16 16;
    a.n / b.q: 36 13; a.w + b.w: 38 9; a.w - b.q: 38 9; a.w * b.q: 38 6; a.w * b.w: 38 6;
    a.w / b.w: 38 6; a.w / b.s: 38 6; a.w % b.q: 19 10; a.v - b.v: 38 17; a.v * b.p: 38 9;
    a.v / b.q: 38 15; a.u + b.u: 38 2; a.u - b.v: 38 6; a.u / b.u: 38 6; a.n * b.n: 38 0;
    a.p + b.b: 11 2; a.p + b.h: 11 2; a.p + b.i: 13 2; a.p * b.l: 31 2; b.l - a.p: 23 2;
    a.p / b.i: 21 13; b.i / a.p: 23 11; a.p / b.l: 31 23; a.p + 1: 11 2; a.p * 100: 14 2;
    a.p / 3: 14 6; a.p / -7: 14 6; a.p / 2.5: 15 6; a.p * 0.5: 12 3; a.i / 2.5: 17 6;
    a.p % 7: 3 2; a.p / 0: 14 6; -a.p: 10 2; abs(a.p - b.q): 13 3; round(a.q, 1): 11 1;
    round(a.q, -2): 10 0; round(a.q, 5): 13 3; round(a.q): 10 0; floor(a.q): 10 0;
    ceil(a.q): 10 0; floor(a.n): 20 0; coalesce(a.p, 0): 12 2; coalesce(a.p, b.q): 12 3;
    pmod(a.p, b.q): 11 3; coalesce(a.u, b.v): 38 2; least(a.p, b.q, a.i): 13 3;
    CAST(a.q AS DECIMAL(20, 1)): 20 1;
    CAST(a.i AS DECIMAL(20, 2)): 20 2; a.p + 0: 11 2; a.p * 1: 12 2;
    CAST(a.p AS DECIMAL(12, 4)) + a.i: 15 4;
""")
OF_GROUPS = _read("""
    avg(b.p): 14 6; sum(b.p): 20 2; avg(b.w): 38 14; avg(b.n): 24 4; avg(a.p - b.q): 17 7;
    max(b.q): 12 3; min(b.w): 38 10;
""")
#: Of no one argument that Python computes row by row, for Spark alone.
OF_AVERAGES = ("avg(b.p) / 3", "sum(b.p) / count(*)", "min(b.p) + avg(b.q)", "sum(a.q * b.q)")


def table(rows: int = 120) -> pa.Table:
    draw = random.Random(7)
    columns: dict[str, list[Any]] = {"id": list(range(rows))}
    for name, dtype in COLUMNS.items():
        if name in columns:
            continue
        is_decimal = pa.types.is_decimal(dtype)
        digits = dtype.precision if is_decimal else (dtype.bit_width - 1) * 30103 // 100000
        most = 10**digits - 1
        raw = [min(10 ** draw.randint(1, digits), most) for _ in range(rows)]
        raw = [draw.randint(-m, m) for m in raw]
        raw[:6] = [0, most, -most, 1, -1, 5 * 10 ** (digits - 1)]
        raw[6] = 5 * 10**30 - 1 if name == "z" else raw[6]
        draw.shuffle(raw)
        values: list[Any] = raw
        if is_decimal:
            exact = Context(prec=60)
            values = [exact.scaleb(x, -dtype.scale) for x in raw]
        columns[name] = [None if draw.random() < 0.05 else x for x in values]
    return pa.table({name: pa.array(columns[name], COLUMNS[name]) for name in COLUMNS})


def settled(value: Decimal | None, digits: int, scale: int) -> Decimal | None:
    """A value of Spark's type: rounded, and NULL where it has no room."""
    if value is None:
        return None
    rounded = value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
    return rounded if abs(rounded) < Decimal(10) ** (digits - scale) else None


class _Row:
    """Columns as Python names them; None anywhere makes the value None."""

    def __init__(self, row: dict[str, Any]) -> None:
        for name, value in row.items():
            setattr(self, name, None if value is None else Decimal(value))


def _places(x: Decimal, places: Any = 0) -> Decimal:
    unit = Decimal(1).scaleb(-int(places))
    return (x / unit).quantize(Decimal(1), ROUND_HALF_UP) * unit


FUNCTIONS = {
    "D": Decimal,
    "abs": abs,
    "round": _places,
    "floor": lambda x: x.to_integral_value(ROUND_FLOOR),
    "ceil": lambda x: x.to_integral_value(ROUND_CEILING),
    "coalesce": lambda *xs: next((x for x in xs if x is not None), None),
    "least": lambda *xs: min((x for x in xs if x is not None), default=None),
    "pmod": lambda x, n: r if (r := x % n) >= 0 else (r + n) % n,
    "cast": _places,
}


def computed(text: str, row: dict[str, Any], other: dict[str, Any]) -> Decimal | None:
    """The exact value of an expression of two rows, to 120 digits."""
    python = re.sub(r"CAST\((.*?) AS DECIMAL\(\d+, (\d+)\)\)", r"cast(\1, \2)", text)
    python = re.sub(r"(?<![\w.])(\d+(\.\d+)?)", r"D('\1')", python)
    with localcontext(Context(prec=120)):
        try:
            return eval(python, {"a": _Row(row), "b": _Row(other), **FUNCTIONS})
        except (TypeError, AttributeError, ArithmeticError):
            return None  # of NULL, or of a divisor of 0


def query(texts: Any, groups: bool = False) -> str:
    outputs = ", ".join(f"{text} AS c{k}" for k, text in enumerate(texts))
    on = "a.id - b.id BETWEEN 0 AND 8" if groups else "a.id = b.id"
    end = " GROUP BY a.id" if groups else ""
    return f"SELECT a.id AS k, {outputs} FROM numbers a JOIN numbers b ON {on}{end}"


def on_tables(text: str, numbers: pa.Table, **options: Any) -> pa.Table:
    return penstock.sql(text, {"numbers": numbers}, time=TIME, within=8, **options)


def on_streams(text: str, numbers: pa.Table) -> pa.Table:
    with penstock.stream(text, {"numbers": numbers.schema}, time=TIME, within=8) as stream:
        stream.push("numbers", numbers.slice(0, 50))
        first = stream.poll()
        stream.push("numbers", numbers.slice(50))
        return pa.concat_tables([first, stream.close()])


TIME = {"a": "id", "b": "id"}
WAYS: dict[str, Callable[[str, pa.Table], pa.Table]] = {
    "joined": on_tables,
    "ordered": lambda text, numbers: on_tables(f"{text} ORDER BY 1", numbers),
    "nested": lambda text, numbers: on_tables(f"SELECT * FROM ({text}) x ORDER BY 1", numbers),
    "streams": on_streams,
    "two workers": lambda text, numbers: on_tables(text, numbers, workers=2),
}


@pytest.mark.parametrize("way", [way for way in WAYS if way != "two workers"])
def test_rows(way: str) -> None:
    numbers = table()
    out = WAYS[way](query(OF_ROWS), numbers).sort_by("k")
    out.validate(full=True)
    with localcontext(Context(prec=120)):
        for k, (text, shape) in enumerate(OF_ROWS.items()):
            assert out.schema.field(f"c{k}").type == pa.decimal128(*shape), text
            wanted = [settled(computed(text, row, row), *shape) for row in numbers.to_pylist()]
            assert out.column(f"c{k}").to_pylist() == wanted, text


@pytest.mark.parametrize("way", WAYS)
def test_groups(way: str) -> None:
    numbers, rows = table(), table().to_pylist()
    out = WAYS[way](query(OF_GROUPS, groups=True), numbers).sort_by("k")
    out.validate(full=True)
    folds = {"avg": lambda xs: sum(xs) / len(xs), "sum": sum, "min": min, "max": max}
    with localcontext(Context(prec=120)):
        for k, (text, shape) in enumerate(OF_GROUPS.items()):
            assert out.schema.field(f"c{k}").type == pa.decimal128(*shape), text
            wanted = []
            for place, row in enumerate(rows):
                pairs = [
                    computed(text[4:-1], row, one) for one in rows[max(place - 8, 0) : place + 1]
                ]
                known = [value for value in pairs if value is not None]
                wanted.append(settled(folds[text[:3]](known), *shape) if known else None)
            assert out.column(f"c{k}").to_pylist() == wanted, text


def test_integers_around_joins() -> None:
    """A computed INT keeps Spark's 10 digits, however small it is."""
    inner = "SELECT a.i % 10 AS r FROM numbers a JOIN numbers b ON a.id = b.id ORDER BY 1"
    out = on_tables(f"SELECT x.r * 1.5 AS z FROM ({inner}) x", table(30))
    assert out.schema.field("z").type == pa.decimal128(13, 1)


def test_integers_beyond_64_bits_between_parts() -> None:
    """Arrow has decimals for them, but what reads the groups takes them for integers."""
    wide = "max(a.l * 4)"
    text = query([f"{wide} / 2", f"round({wide} + {wide})", f"concat('x', {wide})"], groups=True)
    for out in (on_tables(text, table(30)), on_streams(text, table(30))):
        assert out.schema.types[1:] == [pa.float64(), pa.decimal128(20, 0), pa.string()]
        assert not out.schema.field("c1").metadata
    for value, dtype in ((wide, pa.float64()), ("max(a.n)", pa.decimal128(25, 4))):
        joined = f"SELECT avg(x.c0 + b.l) AS mean FROM ({query([value], groups=True)}) x"
        rows = {"numbers": table(30)}
        mean = penstock.sql(f"{joined} JOIN numbers b ON x.k = b.id", rows, time=TIME | {"x": "k"})
        assert mean.schema.types == [dtype]
    # The note by which parts know them is not believed of a user's column.
    noted = pa.schema(
        [field.with_metadata({"penstock integers": "0 9"}) for field in table(30).schema]
    )
    for out in (on_tables, on_streams):
        rows = out(query(["a.n / 2"]), table(30).cast(noted))
        assert rows.schema.types[1:] == [pa.decimal128(26, 6)]


def test_averages_around_joins() -> None:
    inner = "SELECT a.id, a.p FROM numbers a JOIN numbers b ON a.id = b.id ORDER BY 1"
    calls = ("avg(x.p)", "avg(DISTINCT x.p)", "avg(x.p) FILTER (WHERE x.id < 40)")
    outputs = ", ".join(f"{call} AS c{k}" for k, call in enumerate(calls))
    numbers = table()
    out = on_tables(f"SELECT {outputs} FROM ({inner}) x", numbers)
    over = on_tables(f"SELECT avg(x.p) OVER () / 3 AS c FROM ({inner}) x LIMIT 1", numbers)
    values = [one for one in numbers["p"].to_pylist() if one is not None]
    early = [one for one in numbers["p"].to_pylist()[:40] if one is not None]
    wanted = [settled(sum(v) / len(v), 14, 6) for v in (values, {*values}, early)]
    assert [out[f"c{k}"][0].as_py() for k in range(3)] == wanted
    assert {field.type for field in out.schema} == {pa.decimal128(14, 6)}
    assert over.schema.field("c").type == pa.decimal128(16, 8)
    assert over["c"][0].as_py() == settled(wanted[0] / 3, 16, 8)


#: Conditions of a difference d, which Spark rounds or makes NULL; the last is no band.
OF_DIFFERENCES: dict[str, Callable[[Decimal, Decimal], bool]] = {
    "abs(d) <= 0.05": lambda d, q: abs(d) <= Decimal("0.05"),
    "d <= -0.05": lambda d, q: d <= Decimal("-0.05"),
    "d < 0.05": lambda d, q: d < Decimal("0.05"),
    "d = 0.05": lambda d, q: d == Decimal("0.05"),
    "-0.1 > d": lambda d, q: d < Decimal("-0.1"),
    f"d < 1{'0' * 40}": lambda d, q: True,
    "-d < 0.07": lambda d, q: -d < Decimal("0.07"),
    "abs(d) < a.q": lambda d, q: abs(d) < q,
}


@pytest.mark.parametrize(("name", "shape"), [("v", (38, 17)), ("u", (38, 2))])
@pytest.mark.parametrize("condition", OF_DIFFERENCES)
def test_searches(condition: str, name: str, shape: tuple[int, int]) -> None:
    """A comparison of a rounded difference is searched by the exact one."""
    dtype = COLUMNS[name]
    most, near = 10**dtype.precision - 1, 5 * 10 ** (dtype.scale - 2)
    raw = [0, -most, most, most - 1, *(near + k for k in (-6, -5, -4, 0, 1, 4, 5, 6))]
    with localcontext(Context(prec=120)):
        values = [Decimal(sign * one).scaleb(-dtype.scale) for one in raw for sign in (1, -1)]
        q = [Decimal(k % 3).scaleb(-1) for k in range(len(values))]
        sides = pa.table(
            {name: pa.array(values, dtype), "q": pa.array(q, COLUMNS["q"]), "k": range(len(q))}
        )
        on = re.sub(r"\bd\b", f"(a.{name} - b.{name})", condition)
        text = f"SELECT a.k AS i, b.k AS j FROM a JOIN b ON {on}"
        # Of so many rows that they are searched.
        tables = dict.fromkeys("ab", pa.concat_tables([sides] * 20))
        predicate = compile_query(text, {"a": sides.schema, "b": sides.schema}, rows=9).predicate
        is_band = isinstance(join_form(predicate, "r").form, BandForm)
        assert is_band == (condition != list(OF_DIFFERENCES)[-1])
        assert search_of(predicate, "r").keys or not condition.startswith("abs")
        out = penstock.sql(text, tables)
        wanted = {
            (i, j)
            for i, x in enumerate(values)
            for j, y in enumerate(values)
            if (d := settled(x - y, *shape)) is not None and OF_DIFFERENCES[condition](d, q[i])
        }
    assert set(zip(*(out[c].to_pylist() for c in "ij"), strict=True)) == wanted
    assert out.num_rows == 400 * len(wanted)
