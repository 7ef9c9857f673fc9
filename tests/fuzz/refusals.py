"""Errors that a query may end in, each with its reason. All others are findings."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from tests.fuzz.oracle import Expected
from tests.fuzz.query import Case


def always(case: Case, expected: Expected) -> bool:
    return True


@dataclass(frozen=True)
class Refusal:
    """An error that is right where ``holds`` says so."""

    reason: str
    error: str
    pattern: str
    holds: Callable[[Case, Expected], bool] = always


def misfit(case: Case, expected: Expected) -> bool:
    return expected.misfit


def large_sum(case: Case, expected: Expected) -> bool:
    return expected.largest_sum >= 1 << 63


def far_times(case: Case, expected: Expected) -> bool:
    """Whether some time is far enough from zero to leave 64 bits in another unit."""
    return any(
        isinstance(x, int) and abs(x) >= 1 << 30 for side in case.rows for row in side for x in row
    )


def no_time(case: Case, expected: Expected) -> bool:
    return any(row[0] is None for side in case.rows for row in side)


def integer_time(case: Case, expected: Expected) -> bool:
    """Whether some side has an integer for its time."""
    return any(pa.types.is_integer(own[0].arrow) for own in case.query.columns)


REFUSALS = [
    Refusal(
        "aggregates over other joins than inner ones",
        "QueryError",
        r"aggregates over a (LEFT|RIGHT|FULL) (OUTER|SEMI|ANTI) JOIN are not supported",
        lambda case, _: case.query.join not in ("inner", "comma"),
    ),
    Refusal(
        "CAST that does not fit",
        "DataError",
        r"CAST of .*(overflows|it is not a finite number)",
        misfit,
    ),
    Refusal("sum beyond its type", "DataError", r"a group's sum lies ou", large_sum),
    Refusal(
        "time beyond 64 bits in the finer unit",
        "DataError",
        r"a time of \w( \(\w\))? needs more than 64 bits in the unit of the window",
        far_times,
    ),
    Refusal(
        "computed time beyond its bits",
        "DataError",
        r"a computed .* needs more than (32|64) bits",
        far_times,
    ),
    Refusal(
        "ROWS without a time",
        "DataError",
        r"has no time, so it has no place among the last ROWS",
        lambda case, expected: case.query.rows is not None,
    ),
    Refusal(
        "lossy cast across both sides",
        "QueryError",
        r"casts a value computed from both sides in a way that may round or overflow",
    ),
    Refusal(
        "a column of durations beside an integer time",
        "QueryError",
        r"of integer and duration\[\w+\] has no meaning",
        integer_time,
    ),
    Refusal(
        "more digits than a decimal has",
        "QueryError",
        r"output column \w+ may need \d+ digits; CAST its operands",
    ),
    Refusal("not of the band form", "DeviceError", r"runs the band form alone"),
    Refusal(
        "wider than an accumulator", "DeviceError", r"too wide to be summed|bits, more than 64 \("
    ),
    Refusal(
        "group of a stream that is never complete",
        "QueryError",
        r"a stream (never knows that|cannot group by columns of both tables over ROWS)"
        r"|^DISTINCT needs all rows",
        lambda case, _: case.query.aggregated,
    ),
]


def refusal(error: BaseException, case: Case, expected: Expected) -> str | None:
    """The reason for an error that the docs allow, None for any other."""
    for known in REFUSALS:
        names = {kind.__name__ for kind in type(error).__mro__}
        if known.error in names and re.search(known.pattern, str(error)):
            return known.reason if known.holds(case, expected) else None
    return None
