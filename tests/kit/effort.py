"""How much a test does: little in the short run (``make test``), all of it in the full one.

The short run is the one that leaves out the tests marked as slow; tests/conftest.py says which one
this is before any test is collected.
"""

from __future__ import annotations

from typing import TypeVar

_T = TypeVar("_T")

#: The short run takes one in so many of the random cases, and at least so many of them.
_ONE_IN, _LEAST = 4, 10

_full = True


def set_full(is_full: bool) -> None:
    """Say which run this is."""
    global _full
    _full = is_full


def effort(full: _T, short: _T) -> _T:
    """The first in the full run, the second in the short one."""
    return full if _full else short


def examples(count: int) -> int:
    """Random cases of a property of which the full run tries so many."""
    return effort(count, min(count, max(count // _ONE_IN, _LEAST)))
