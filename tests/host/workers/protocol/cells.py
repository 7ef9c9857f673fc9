"""Machines as values, for the model checker: what they do is done once for each of their states.

A system's states are products of those of its parts, so that a part does the same again and again.
Deep copies and comparisons of it all would take most of the time. Here a system is cells; an act of
a cell makes another cell, and is looked up if an equal cell has done it before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from enum import Enum
from functools import cache
from typing import Any, NamedTuple

from penstock.host.workers.protocol.commit import CheckpointCommit, WorkerPart
from penstock.host.workers.protocol.coordinator import MemberPart

#: Attributes that count what happened and decide nothing.
_IGNORED = frozenset({"refused", "merged", "counts", "_limit_of"})
#: Values with mappings in them.
_RECORDS = CheckpointCommit | WorkerPart | MemberPart
#: Where machines are from; all else is a value.
_ROOMS = ("penstock.host.workers.", "tests.host.workers.")


class Cell(NamedTuple):
    """A part of a system: its number, which equal ones share, and what must not be changed."""

    number: int
    content: Any


class Cells:
    """All cells that there were, and what each did."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Cell] = {}
        self._done: dict[Hashable, tuple[Cell, Any]] = {}

    def of(self, content: Any) -> Cell:
        """Return the cell of a machine, which is no longer the caller's."""
        return self._known.setdefault(frozen(content), Cell(len(self._known), content))

    def act(self, cell: Cell, act: Callable[..., Any], *args: Hashable) -> tuple[Cell, Any]:
        """Return the cell after an act, and what the act returned.

        Parameters
        ----------
        act : callable
            Takes a copy of the machine, and ``args``.
        """
        key = cell.number, act, args
        done = self._done.get(key)
        if done is None:
            content = copied(cell.content)
            result = act(content, *args)
            done = self._done[key] = self.of(content), result
        return done


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
    if not _is_machine(type(value)) and not isinstance(value, _RECORDS):
        return value
    held = vars(value).items()
    return type(value), *[frozen(one) for name, one in held if name not in _IGNORED]


@cache
def _is_machine(form: type) -> bool:
    """Whether it has a state that changes.

    Tuples, members of enumerations and frozen dataclasses have none, nor have mappings of a type of
    their own.
    """
    made = getattr(form, "__dataclass_params__", None)
    is_value = issubclass(form, tuple | dict | Enum) or (made is not None and made.frozen)
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
