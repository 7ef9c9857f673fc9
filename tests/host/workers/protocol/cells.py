"""Copies of machines, and numbers that tell their states apart, for the model checker.

Deep copies and comparisons of a whole system would take most of the time. A system is cells; a step
copies those that it changes, and a cell's content is compared once, whatever systems share it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from functools import cache
from typing import Any

from penstock.host.workers.protocol.commit import Commit, WorkerPart

#: Attributes that count what happened and decide nothing.
_IGNORED = frozenset({"refused", "merged", "counts", "_limit_of"})
#: Where machines are from; all else is a value.
_ROOMS = ("penstock.host.workers.", "tests.host.workers.")


class Cell:
    """A part of a system that is copied when it changes."""

    __slots__ = ("content", "number")

    def __init__(self, content: Any) -> None:
        self.content = content
        self.number: int | None = None

    def copy(self) -> Cell:
        return Cell(copied(self.content))


class Numbers:
    """Numbers of contents: equal ones have one number."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}

    def of(self, cell: Cell) -> int:
        if cell.number is None:
            cell.number = self._known.setdefault(frozen(cell.content), len(self._known))
        return cell.number


def copied(value: Any) -> Any:
    """A deep copy. Messages and records are values, and stay."""
    return _COPIES.get(type(value), _copied_machine)(value)


def frozen(value: Any) -> Hashable:
    """A value that is equal where contents are."""
    return _FROZEN.get(type(value), _frozen_machine)(value)


def _same(value: Any) -> Any:
    return value


def _copied_machine(value: Any) -> Any:
    if not _is_machine(type(value)):
        return value
    twin = object.__new__(type(value))
    twin.__dict__ = {name: copied(one) for name, one in vars(value).items()}
    return twin


def _frozen_machine(value: Any) -> Hashable:
    if not _is_machine(type(value)) and not isinstance(value, Commit | WorkerPart):
        return value
    held = vars(value).items()
    return type(value), *[frozen(one) for name, one in held if name not in _IGNORED]


@cache
def _is_machine(form: type) -> bool:
    """Whether it has a state that changes: tuples and frozen dataclasses have none."""
    made = getattr(form, "__dataclass_params__", None)
    is_value = issubclass(form, tuple) or (made is not None and made.frozen)
    return form.__module__.startswith(_ROOMS) and not is_value


_COPIES: dict[type, Callable[[Any], Any]] = {
    **dict.fromkeys((int, str, float, bytes, tuple, bool, type(None)), _same),
    list: lambda value: [copied(one) for one in value],
    deque: lambda value: deque([copied(one) for one in value]),
    dict: lambda value: {key: copied(one) for key, one in value.items()},
    set: set,
}
_FROZEN: dict[type, Callable[[Any], Hashable]] = {
    **dict.fromkeys((int, str, float, bytes, tuple, bool, type(None)), _same),
    list: lambda value: tuple([frozen(one) for one in value]),
    deque: lambda value: tuple([frozen(one) for one in value]),
    dict: lambda value: frozenset([(key, frozen(one)) for key, one in value.items()]),
    set: frozenset,
}
