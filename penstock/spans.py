"""Spans of time as text: ``180``, ``180s``, ``20ms``."""

from __future__ import annotations

import re
from datetime import timedelta

_MICROSECONDS = {
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
    "us": 1,
}


def parsed_span(text: str) -> int | timedelta:
    """``180`` in the unit of a time column, or a duration: d, h, m, s, ms or us after a number.

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
        return timedelta(microseconds=amount * _MICROSECONDS[unit])
    except OverflowError:
        raise ValueError(f"a duration of at most {timedelta.max.days} days, not {text!r}") from None
