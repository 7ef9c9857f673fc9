"""Readers of settings and options, which Spark gives as text.

Each returns the value, or raises a ``ValueError`` that says what the text must be.
"""

from __future__ import annotations

import math
from collections.abc import Callable


def one_of(*values: str) -> Callable[[str], str]:
    """Read one of some words, in upper or lower case."""

    def read(text: str) -> str:
        if text.strip().lower() not in values:
            raise ValueError(f"one of {', '.join(values)}")
        return text.strip().lower()

    return read


def flag(text: str) -> bool:
    """Read ``true`` or ``false``."""
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("true or false")
    return text.strip().lower() == "true"


def whole(least: int = 0, most: int | None = None) -> Callable[[str], int]:
    """Read a whole number within bounds."""
    rule = f"{least} or more" if most is None else f"{least} to {most}"

    def read(text: str) -> int:
        # int() alone would name Python's reason, not the rule.
        is_whole = text.strip().lstrip("-").isdecimal()
        if not is_whole or int(text) < least or (most is not None and int(text) > most):
            raise ValueError(f"a whole number, {rule}")
        return int(text)

    return read


def number(rule: str, accepts: Callable[[float], bool]) -> Callable[[str], float]:
    """Read a finite number that is accepted; the rule says which are."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and accepts(value)):
            raise ValueError(rule)
        return value

    return read
