"""Steps: the triggers by which a worker releases complete rows, each up to a limit.

The leader of a group releases it by its own clock. But if each worker joins a share of the rows
with all rows, the shares of a step make up the whole only if all workers take the same steps: rank
0 announces each step as its clock rises, and the others take it once their own clocks have reached
it. Each cut is also a step, which needs no announcement.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

from ...emit.groups.closing import Limit


class StepRule(ABC):
    """Rule that says which steps a worker takes. Limits never fall."""

    @abstractmethod
    def next(self, done: Limit, due: Limit) -> Limit | None:
        """Return the limit of the next step; None if there is none yet.

        Parameters
        ----------
        done : Limit
            Of the last step.
        due : Limit
            Limit that this worker's clock allows.
        """

    @abstractmethod
    def at_cut(self, done: Limit, due: Limit) -> list[Limit]:
        """Return the limits of the steps to take at a cut, where all clocks are the same."""

    @abstractmethod
    def begun(self) -> None:
        """Note that the next step is taken."""

    def is_news(self, done: Limit, due: Limit) -> bool:
        """Whether this worker's clock allows a step that has not been announced."""
        raise AssertionError("this worker announces no steps")

    def announced(self, limit: Limit) -> None:
        """Note a step that rank 0 announces."""
        raise AssertionError("nobody announces steps to this worker")


class OwnSteps(StepRule):
    """Steps by a worker's own clock."""

    def next(self, done: Limit, due: Limit) -> Limit | None:
        return due if due > done else None

    def at_cut(self, done: Limit, due: Limit) -> list[Limit]:
        return [due] if due > done else []

    def begun(self) -> None:
        """Do nothing: the limit of the last step says it."""


class AnnouncedSteps(StepRule):
    """Steps that rank 0 has announced, taken once this worker's own clock has reached them."""

    def __init__(self) -> None:
        self._announced: deque[Limit] = deque()

    def next(self, done: Limit, due: Limit) -> Limit | None:
        return self._announced[0] if self._announced and self._announced[0] <= due else None

    def at_cut(self, done: Limit, due: Limit) -> list[Limit]:
        # Rank 0 announces nothing between its mark and the end of the cut, and its mark came behind
        # all its announcements; so all of them are due.
        limits = [*self._announced, due] if self.is_news(done, due) else [*self._announced]
        self._announced.clear()
        return limits

    def begun(self) -> None:
        self._announced.popleft()

    def is_news(self, done: Limit, due: Limit) -> bool:
        return due > (self._announced[-1] if self._announced else done)

    def announced(self, limit: Limit) -> None:
        self._announced.append(limit)
