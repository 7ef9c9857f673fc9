"""Policies: which lane gets the next task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol


class Policy(Protocol):
    """Chooses a lane for each task."""

    def choose(self, waiting: Mapping[int, int]) -> int:
        """Choose a lane for a task.

        Parameters
        ----------
        waiting : mapping of lane to int
            Evaluations left to do on each lane in service; never empty.
        """
        ...


class RoundRobin:
    """Chooses lanes in turn, as in paper 1, section 4: tasks are about equally large."""

    def __init__(self) -> None:
        self._last = -1

    def choose(self, waiting: Mapping[int, int]) -> int:
        later = [lane for lane in waiting if lane > self._last]
        self._last = min(later) if later else min(waiting)
        return self._last


class LeastWork:
    """Chooses the lane with the least work left, for lanes of different speed."""

    def choose(self, waiting: Mapping[int, int]) -> int:
        return min(waiting, key=lambda lane: (waiting[lane], lane))


#: Policies by name.
POLICIES: dict[str, Callable[[], Policy]] = {"round-robin": RoundRobin, "least-work": LeastWork}
