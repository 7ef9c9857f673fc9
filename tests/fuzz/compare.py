"""Whether the rows that came are the rows that were expected, as multisets."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import pyarrow as pa

from tests.fuzz.oracle import Expected, Rows
from tests.fuzz.types import comparable, values_of


def rows_of(table: pa.Table) -> Rows:
    columns = [values_of(column) for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def difference(expected: Expected, names: list[str] | None, rows: Rows) -> str | None:
    """What is wrong with the rows, None where nothing is; ``names`` None are not compared."""
    if names is not None and names != expected.names:
        return f"columns {names}, not {expected.names}"
    want = Counter(tuple(map(comparable, row)) for row in expected.rows)
    have = Counter(tuple(map(comparable, row)) for row in rows)
    if want == have:
        return None
    missing, extra = list((want - have).elements()), list((have - want).elements())
    if expected.rounded and len(missing) == len(extra):
        missing.sort(key=str)
        extra.sort(key=str)
        if matched(missing, extra):
            return None
    return f"missing {shown(missing)}, not expected {shown(extra)}"


def matched(missing: Rows, extra: Rows) -> bool:
    """Whether the rows are equal up to the last digits of their numbers, in some order."""
    left = list(extra)
    for row in missing:
        for i, other in enumerate(left):
            if all(close(x, y) for x, y in zip(row, other, strict=True)):
                del left[i]
                break
        else:
            return False
    return True


def close(x: Any, y: Any) -> bool:
    if isinstance(x, Fraction) and isinstance(y, Fraction):
        return abs(x - y) <= max(abs(x), abs(y)) / 10**9 + Fraction(1, 10**9)
    return x == y


def shown(rows: Rows) -> str:
    def value(x: Any) -> str:
        if isinstance(x, Fraction):
            return str(float(x)) if math.gcd(x.denominator, 10**9) == x.denominator else str(x)
        return repr(x)

    whole = ["(" + ", ".join(value(x) for x in row) + ")" for row in rows[:4]]
    return f"{len(rows)} rows: " + " ".join(whole) + (" ..." if len(rows) > 4 else "")
