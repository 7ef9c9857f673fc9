"""When a worker lets complete rows go, and up to which limit: steps.

Groups are led by one worker each, which lets them go as its own clock says. Where each worker joins
a share of the rows with all rows, the shares of a step make up the whole only if all workers take
the same steps: rank 0 announces each as its clock rises, and the others take it once their own
clocks have come as far. A cut is a step of its own, which all workers know without being told.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

from ...emit.groups.closing import Limit


class StepRule(ABC):
    """The steps of one worker. Limits never fall."""

    @abstractmethod
    def next(self, done: Limit, due: Limit) -> Limit | None:
        """Return the limit of the step that is next; None if there is none yet.

        Parameters
        ----------
        done : Limit
            Of the last step.
        due : Limit
            What this worker's clock allows.
        """

    @abstractmethod
    def at_cut(self, done: Limit, due: Limit) -> list[Limit]:
        """Return the limits of the steps that a cut takes, at which all clocks are the same."""

    @abstractmethod
    def begun(self) -> None:
        """Take note that the next step is taken."""

    def is_news(self, done: Limit, due: Limit) -> bool:
        """Whether a step to what this worker's clock allows has not been announced."""
        raise AssertionError("this worker announces no steps")

    def announced(self, limit: Limit) -> None:
        """Take note of a step that rank 0 announces."""
        raise AssertionError("nobody announces steps to this worker")


class OwnSteps(StepRule):
    """Steps by a worker's own clock."""

    def next(self, done: Limit, due: Limit) -> Limit | None:
        return due if due > done else None

    def at_cut(self, done: Limit, due: Limit) -> list[Limit]:
        return [due] if due > done else []

    def begun(self) -> None:
        """The limit that is done says it."""


class AnnouncedSteps(StepRule):
    """Steps that rank 0 has announced, once the own clock has come as far."""

    def __init__(self) -> None:
        self._told: deque[Limit] = deque()

    def next(self, done: Limit, due: Limit) -> Limit | None:
        return self._told[0] if self._told and self._told[0] <= due else None

    def at_cut(self, done: Limit, due: Limit) -> list[Limit]:
        # Rank 0 announces nothing between its mark and the end of the cut, and its mark came behind
        # what it had announced; so all of that is due.
        found = [*self._told, due] if self.is_news(done, due) else [*self._told]
        self._told.clear()
        return found

    def begun(self) -> None:
        self._told.popleft()

    def is_news(self, done: Limit, due: Limit) -> bool:
        return due > (self._told[-1] if self._told else done)

    def announced(self, limit: Limit) -> None:
        self._told.append(limit)
