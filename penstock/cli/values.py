"""Reads texts of the command line as the values that calls take."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from ..errors import UsageError
from ..spans import parsed_span

#: What follows the name, of options that name places.
_VALUES = {"table": "FILE", "relation": "FOLDER"}

#: Units of sizes in bytes.
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def pairs(items: Iterable[str], option: str) -> dict[str, str]:
    """Read ``name=value`` arguments as a mapping.

    Raises
    ------
    UsageError
        An item has no ``=``, or a name is given twice.
    """
    by_name: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not (name and equals and value):
            raise UsageError(f"--{option} takes NAME={_VALUES.get(option, 'VALUE')}, not {item!r}")
        if name in by_name:
            raise UsageError(f"--{option} gives {name} twice")
        by_name[name] = value
    return by_name


def rows(text: str | None) -> int | dict[str, int] | None:
    """Read ``4096`` for both sides, or ``a=100,b=50``."""
    if text is None:
        return None
    if "=" not in text:
        return _count(text, "rows")
    return {name: _count(value, "rows") for name, value in pairs(text.split(","), "rows").items()}


def _count(text: str, option: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"--{option} takes a whole number, not {text!r}") from None


def size(text: str, option: str) -> int:
    """Read ``128MB``, ``2G`` or ``65536`` as bytes.

    Raises
    ------
    UsageError
        It is none.
    """
    match = re.fullmatch(r"(\d{1,12})\s*([KMG]?)i?B?", text.strip(), re.IGNORECASE)
    n_bytes = 0 if match is None else int(match[1]) * _UNITS[match[2].upper()]
    if not n_bytes:
        raise UsageError(f"--{option} takes a size such as 256MB, not {text!r}")
    return n_bytes


def span(text: str | None, option: str) -> int | timedelta | None:
    """Read ``180`` in the unit of the time column, or a duration: ``180s``, ``5m``, ``20ms``."""
    if text is None:
        return None
    try:
        return parsed_span(text)
    except ValueError as error:
        raise UsageError(f"--{option} takes {error}") from None


def seconds(text: str, option: str, example: str) -> float:
    """Read a duration, which has its unit, as in an example.

    Raises
    ------
    UsageError
        It is none.
    """
    length = span(text, option)
    if not isinstance(length, timedelta):
        raise UsageError(
            f"--{option} takes a duration with its unit, such as {example}, not {text!r}"
        )
    return length.total_seconds()


def spans(items: Iterable[str], option: str) -> int | timedelta | dict[str, Any] | None:
    """Read one span for both sides, or ``a=10s`` per side."""
    items = list(items)
    if not items:
        return None
    if len(items) == 1 and "=" not in items[0]:
        return span(items[0], option)
    return {name: span(value, option) for name, value in pairs(items, option).items()}


def params(items: Iterable[str]) -> dict[str, Any]:
    """Read ``diff=500``: as a number if it looks like one, otherwise as text."""
    return {name: _value(text) for name, text in pairs(items, "param").items()}


def _value(text: str) -> Any:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text
    if not number.is_finite():
        return text
    return int(number) if "." not in text and "e" not in text.lower() else number


def digits(items: Iterable[str]) -> dict[str, int]:
    """Read ``gps.lon=6`` as decimal digits of a float column."""
    return {name: _count(value, "scale") for name, value in pairs(items, "scale").items()}
