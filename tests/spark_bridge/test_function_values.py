"""Functions of numbers give Spark's values: of all types, random, NULL, NaN and extremes."""

from __future__ import annotations

import math
import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

import penstock
from penstock import spark_bridge as bridge
from tests.kit.effort import effort
from tests.penstock import test_decimals as decimals
from tests.spark_bridge.kit.settings import setting

EXTREMES = {
    "i": [0, 1, -1, 2, 10, -10, 2**31 - 1, -(2**31)],
    "b": [0, 1, -1, 2, 10, -10, 2**53 + 1, -(2**63), 2**63 - 1],
    "f": [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, math.inf, -math.inf, math.nan, 3.4e38, 1.4e-45],
    "d": [
        *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 2.675, 1.005, 0.285, 1e-310, 5e-324),
        *(math.inf, -math.inf, math.nan, 1.7e308, -1.7e308, 2.0**53, 2.0**63, -(2.0**63)),
        *(89.99, 180.0),
    ],
    "m": [*map(Decimal, ("0.00", "1.00", "-1.00", "0.50", "-2.50", "2.67", "999999.99"))],
}
TYPES = {
    "i": pa.int32(),
    "b": pa.int64(),
    "f": pa.float32(),
    "d": pa.float64(),
    "m": pa.decimal128(8, 2),
}
DDL = "id long, " + ", ".join(
    f"{name} {kind}, {name}2 {kind}"
    for name, kind in zip("ibfdm", ("int", "long", "float", "double", "decimal(8,2)"), strict=True)
)
OF_ONE = [
    *("sqrt", "cbrt", "exp", "ln", "log", "log10", "log2", "log1p", "expm1", "radians", "degrees"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "sign", "signum"),
    *("floor", "ceil", "ceiling", "round", "abs", "negative"),
]
OF_TWO = [
    *("{a} / {b}", "try_divide({a}, {b})", "pmod({a}, {b})", "pow({a}, {b})", "log({a}, {b})"),
    *("atan2({a}, {b})", "hypot({a}, {b})", "nullif({a}, {b})", "{a} <=> {b}"),
    *("({a} < {b}) IS TRUE", "({a} = {b}) IS NOT FALSE"),
]
#: As they are for some types alone.
OF_SOME = {
    **dict.fromkeys(("round({a}, 1)", "round({a}, 2)", "round({a}, 3)"), "ibdm"),
    **dict.fromkeys(("round({a}, -1)", "round({a}, -2)"), "ibd"),
    **dict.fromkeys(("{a} DIV {b}", "{a} DIV 3", "{a} DIV -7"), "ib"),
    **dict.fromkeys(("isnan({a})", "nanvl({a}, {b})"), "fd"),
    "floor({a} / 7)": "ibfdm",
}
#: Integers from which on arithmetic wraps in Spark's types, and is exact here.
WRAPS = {"i": 1 << 30, "b": 1 << 62}
#: Whose results are whole numbers or conditions, and those computed with correct rounding.
EXACT = ("floor", "ceil", "sign", "round", "abs", "negative", "nullif", "<=>", "IS", "DIV", "isnan")


def expressions() -> list[str]:
    found = [f"{name}({own})" for name in OF_ONE for own in TYPES]
    found += [form.format(a=own, b=f"{own}2") for form in OF_TWO for own in TYPES]
    found += [
        form.format(a=own, b=f"{own}2") for form, own_types in OF_SOME.items() for own in own_types
    ]
    # Refused: Spark rounds it as a decimal of its own digits.
    return [text for text in found if text != "round(f)"]


def table() -> pa.Table:
    random = np.random.default_rng(23)
    columns: dict[str, list] = {}
    rows = 500
    for name, extremes in EXTREMES.items():
        for own in (name, f"{name}2"):
            if name in "ib":
                bits = random.integers(1, 31 if name == "i" else 62, rows)
                values = [int(random.integers(-(1 << n), 1 << n)) for n in bits]
            elif name == "m":
                values = [
                    Decimal(int(n)).scaleb(-2) for n in random.integers(-(10**8), 10**8, rows)
                ]
            else:
                values = (random.normal(size=rows) * 10.0 ** random.integers(-3, 4, rows)).tolist()
            at = random.permutation(rows)
            for k, value in zip(at, [*extremes, *extremes, None, None], strict=False):
                values[k] = value
            columns[own] = values
    # Each extreme beside each.
    for name, extremes in EXTREMES.items():
        pairs = [(a, b) for a in extremes for b in extremes]
        for k, (a, b) in enumerate(pairs[: rows // 2]):
            columns[name][k], columns[f"{name}2"][k] = a, b
    own = {name: pa.array(values, TYPES[name[0]]) for name, values in columns.items()}
    return pa.table({"id": pa.array(range(rows), pa.int64()), **own})


def without_wraps(given: pa.Table) -> pa.Table:
    """Without integers whose negative, or sum, is beyond their type: an error of DuckDB's."""
    for name, most in WRAPS.items():
        for own in (name, f"{name}2"):
            kept = [None if v is None or abs(v) >= most else v for v in given[own].to_pylist()]
            at = given.column_names.index(own)
            given = given.set_column(at, own, pa.array(kept, TYPES[name]))
    return given


def ulps(a: float, b: float) -> float:
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 0.0
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.inf
    return abs(a - b) / np.spacing(max(abs(a), abs(b)))


def same(text: str, ours: object, theirs: object) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    if isinstance(theirs, bool):
        return ours is theirs
    if isinstance(ours, float) or isinstance(theirs, float):
        most = 0.0 if any(word in text for word in EXACT) else 1.0
        # A quotient of logarithms is rounded three times, by both; Java's log10 may be off by one.
        most = 2.0 if text.startswith(("log2", "log(", "log10")) and most else most
        return ulps(float(ours), float(theirs)) <= most  # type: ignore[arg-type]
    return ours == theirs


#: What makes DuckDB compute what stands before it.
ENGINES = {"penstock": "", "duckdb": " ORDER BY id LIMIT 1000"}


@pytest.mark.parametrize("engine", ENGINES)
def test_functions_of_numbers(spark, engine):
    """One side's functions; those of pairs are the same code, see tests/penstock."""
    given = table() if engine == "penstock" else without_wraps(table())
    texts = expressions()[:: effort(1, 8)]
    outputs = ", ".join(f"{text} AS c{k}" for k, text in enumerate(texts))
    spark.createDataFrame(given.to_pylist(), DDL).createOrReplaceTempView("numbers")
    with setting(spark, "spark.sql.ansi.enabled", "false"):
        frame = spark.sql(f"SELECT id, {outputs} FROM numbers")
        theirs = {row["id"]: row for row in frame.collect()}
    inner = f"(SELECT id, {outputs} FROM numbers{ENGINES[engine]})"
    out = penstock.sql(
        f"SELECT a.* FROM {inner} a JOIN (SELECT id FROM numbers) b ON a.id = b.id",
        {"numbers": given},
        time={"a": "id", "b": "id"},
        within=0,
    )
    wrong = []
    for row in out.to_pylist():
        operands = {
            name: column[row["id"]].as_py()
            for name, column in zip(given.column_names, given, strict=True)
        }
        wraps = {
            name
            for name, most in WRAPS.items()
            if any(abs(operands[own] or 0) >= most for own in (name, f"{name}2"))
        }
        for k, text in enumerate(texts):
            ours, other = row[f"c{k}"], theirs[row["id"]][f"c{k}"]
            own = next(name for name in re.findall(r"\b[ibfdm]\b", text))
            is_beyond = (
                own in wraps and isinstance(ours, int | Decimal) and not isinstance(ours, bool)
            )
            if not is_beyond and not same(text, ours, other):
                of = operands[own], operands[f"{own}2"]
                wrong.append(f"{text}: {ours!r}, Spark has {other!r}, of {of}")
    assert out.num_rows == given.num_rows
    assert not wrong, "\n".join(wrong[:40]) + f"\n{len(wrong)} in all"


#: Decimals that Spark compares, or chooses from, in one type of both.
OF_TWO_TYPES = """
if(a.id > 50, a.v, b.u); nullif(a.u, b.v); greatest(a.s, b.n); coalesce(a.v, 1); a.v = b.u
a.v < b.u; a.v <=> b.u; a.u IN (a.v, 1); a.u IN (1.001, 2); a.u < 1.001; a.u >= b.s; a.w = b.l
a.v BETWEEN b.u AND b.w; a.p <= b.i; a.s > 0.35; a.z < 5; if(1 = 1, a.p, b.q)
a.v - b.v < 0.05; a.u - b.u = 0
""".strip().replace("\n", ";")


@pytest.mark.parametrize("groups", [False, True], ids=["rows", "groups"])
def test_decimals(spark, groups):
    """Types and values of Spark's own, however a query computes them."""
    numbers = decimals.table()
    frame = spark.createDataFrame(numbers)
    frame.createOrReplaceTempView("numbers")
    of_groups = [*decimals.OF_GROUPS, *decimals.OF_AVERAGES]
    texts = of_groups if groups else [*decimals.OF_ROWS, *OF_TWO_TYPES.split(";")]
    text = decimals.query(texts, groups)
    with setting(spark, "spark.sql.ansi.enabled", "false"):
        theirs = spark.sql(text).toArrow().sort_by("k")
        bridged = bridge.sql(spark, text, {"numbers": frame}, time=decimals.TIME, within=8)
        answers = {"bridge": bridged.toArrow()}
    answers |= {name: way(text, numbers) for name, way in decimals.WAYS.items()}
    for name, ours in answers.items():
        ours = ours.sort_by("k")
        for k, one in enumerate(texts):
            column = f"c{k}"
            assert ours.schema.field(column).type == theirs.schema.field(column).type, (name, one)
            assert ours[column].to_pylist() == theirs[column].to_pylist(), (name, one)
