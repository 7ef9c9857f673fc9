"""Checks of callers' arguments, before they are used.

Each check returns the value, or raises a ``UsageError`` that names the argument and its valid
values.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .errors import UsageError

Check = Callable[[str, Any], Any]

#: Greatest count of anything in tables, windows and files.
MOST = (1 << 63) - 1
#: Some thirty years; waits have a limit of their own that depends on the system.
MOST_SECONDS = 10**9


def refuse(name: str, wanted: str, value: object) -> UsageError:
    """Make the error for an unusable argument."""
    try:
        shown = repr(value)
    except Exception:  # of a foreign object, or an integer of too many digits
        shown = "one that cannot be shown"
    shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
    return UsageError(f"{name} must be {wanted}, not {shown} ({type(value).__name__})")


def instance(cls: type | tuple[type, ...], wanted: str) -> Check:
    """Check for an object of a class, or of one of several."""

    def checked(name: str, value: Any) -> Any:
        if not isinstance(value, cls):
            raise refuse(name, wanted, value)
        return value

    return checked


text = instance(str, "text")
flag = instance(bool, "True or False")


def whole(name: str, value: Any, least: int = 0, most: int = MOST) -> int:
    """Check an integer of Python or NumPy, and its bounds."""
    if not is_whole(value):
        raise refuse(name, "a whole number", value)
    if not least <= value <= most:
        is_open = most == MOST and value < least
        raise refuse(name, f"{least} or more" if is_open else f"{least} to {most}", value)
    return int(value)


def is_whole(value: Any) -> bool:
    """Whether a value is an integer; True and False are not."""
    return hasattr(value, "__index__") and not isinstance(value, bool)


def number(name: str, value: Any, above: float | None = None) -> float:
    """Check a number: finite, not negative, and above a bound if there is one."""
    is_number = math.isfinite(value) if isinstance(value, float) else is_whole(value)
    if not is_number:
        raise refuse(name, "a finite number", value)
    if value < 0 or (above is not None and value <= above):
        raise refuse(name, "0 or more" if above is None else f"above {above:g}", value)
    return value


def seconds(name: str, value: Any, above: float | None = None) -> float:
    """Check a number of seconds that clocks can wait for."""
    if number(name, value, above) > MOST_SECONDS:
        raise refuse(name, f"at most {MOST_SECONDS:,} seconds", value)
    return value


def _whole_or(cls: type, wanted: str) -> Check:
    """Check for a whole number, or an object of a class."""

    def checked(name: str, value: Any) -> Any:
        if isinstance(value, cls):
            return value
        if not is_whole(value):
            raise refuse(name, f"a whole number or {wanted}", value)
        return int(value)

    return checked


#: A number of a time column's unit, or a duration.
span = _whole_or(datetime.timedelta, "a timedelta")
moment = _whole_or(datetime.datetime, "a datetime")


def optional(check: Check) -> Check:
    """Let a check accept None."""
    return lambda name, value: None if value is None else check(name, value)


def mapping(check: Check | None = None) -> Check:
    """Check a mapping from names to values; without a check, these may be anything."""

    def checked(name: str, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise refuse(name, "a mapping of names", value)
        for key, one in value.items():
            text(f"each name in {name}", key)
            if check is not None:
                check(f"{name} of {key}", one)
        return value

    return checked


def one_or_each(check: Check) -> Check:
    """Accept one value for all, or a mapping from names to values."""
    each = mapping(check)
    return lambda name, value: (each if isinstance(value, Mapping) else check)(name, value)


def texts(name: str, value: Any) -> str | Sequence[str]:
    """Check a text, or a list of texts."""
    if isinstance(value, str):
        return value
    if not isinstance(value, Sequence) or isinstance(value, bytes):
        raise refuse(name, "text or a list of texts", value)
    for one in value:
        text(f"each of {name}", one)
    return value
