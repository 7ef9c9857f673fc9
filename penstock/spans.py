"""Spans of time as text: ``180``, ``180s``, ``20ms``."""

from __future__ import annotations

import re
from datetime import timedelta

_UNITS = {
    "d": "days",
    "h": "hours",
    "m": "minutes",
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
}


def without_unit(name: str, value: int) -> str:
    """Message about a number in the place of a duration, for times that are timestamps."""
    return (
        f"{name} is {value}, a number without a unit, and the times are timestamps: give a "
        f"duration, such as {value}s on the command line or timedelta(seconds={value}) in Python"
    )


def parsed_span(text: str) -> int | timedelta:
    """Read a number of a time column's unit, or a duration: a number with d, h, m, s, ms or us.

    Raises
    ------
    ValueError
        It is neither.
    """
    match = re.fullmatch(r"(\d{1,40})\s*(d|h|m|s|ms|us)?", text.strip())
    if match is None:
        raise ValueError(f"a number, or a duration such as 180s, not {text!r}")
    amount, unit = int(match[1]), match[2]
    if unit is None:
        return amount
    try:
        return timedelta(**{_UNITS[unit]: amount})
    except OverflowError:
        raise ValueError(f"a duration of at most {timedelta.max.days} days, not {text!r}") from None
