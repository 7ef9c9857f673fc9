"""Which lane gets the next task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Policy(Protocol):
    """Chooses among lanes."""

    def choose(self, waiting: Mapping[int, int], work: int) -> int:
        """A lane for a task.

        Parameters
        ----------
        waiting : mapping of lane to int
            Evaluations that each lane in service still has to do; never empty.
        work : int
            Evaluations of the task.
        """
        ...


class RoundRobin:
    """The lanes in turn, as in paper 1, section 4: tasks are about equally large."""

    def __init__(self) -> None:
        self._last = -1

    def choose(self, waiting: Mapping[int, int], work: int) -> int:
        later = [lane for lane in waiting if lane > self._last]
        self._last = min(later) if later else min(waiting)
        return self._last


class LeastWork:
    """The lane that would be through first, for lanes of different size.

    Parameters
    ----------
    speeds : mapping of lane to float
        Evaluations per second, or in any other common unit.
    """

    def __init__(self, speeds: Mapping[int, float]) -> None:
        self._speeds = dict(speeds)

    def choose(self, waiting: Mapping[int, int], work: int) -> int:
        return min(waiting, key=lambda lane: ((waiting[lane] + work) / self._speeds[lane], lane))


#: Policies by name.
POLICIES = ("round-robin", "least-work")


def make_policy(name: str, speeds: Mapping[int, float]) -> Policy:
    """The policy called ``name``, one of :data:`POLICIES`."""
    return RoundRobin() if name == "round-robin" else LeastWork(speeds)
