"""Which lane gets the next task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol


class Policy(Protocol):
    """Chooses among lanes."""

    def choose(self, waiting: Mapping[int, int]) -> int:
        """A lane for a task.

        Parameters
        ----------
        waiting : mapping of lane to int
            Evaluations that each lane in service still has to do; never empty.
        """
        ...


class RoundRobin:
    """The lanes in turn, as in paper 1, section 4: tasks are about equally large."""

    def __init__(self) -> None:
        self._last = -1

    def choose(self, waiting: Mapping[int, int]) -> int:
        later = [lane for lane in waiting if lane > self._last]
        self._last = min(later) if later else min(waiting)
        return self._last


class LeastWork:
    """The lane that has the least to do, for lanes of different speed."""

    def choose(self, waiting: Mapping[int, int]) -> int:
        return min(waiting, key=lambda lane: (waiting[lane], lane))


#: Policies by name.
POLICIES: dict[str, Callable[[], Policy]] = {"round-robin": RoundRobin, "least-work": LeastWork}
