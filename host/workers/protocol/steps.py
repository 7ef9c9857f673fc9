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
    def may_begin(self, done: Limit, due: Limit) -> bool:
        """Whether there is a step now.

        Parameters
        ----------
        done : Limit
            Of the last step.
        due : Limit
            What this worker's clock allows.
        """

    @abstractmethod
    def begin(self, done: Limit, due: Limit) -> list[Limit]:
        """Return the limits of the steps to be taken now, in order."""

    @abstractmethod
    def at_cut(self, done: Limit, due: Limit) -> list[Limit]:
        """Return the limits of the steps that a cut takes, at which all clocks are the same."""

    def announced(self, limit: Limit) -> None:
        """Take a step that rank 0 has announced."""
        raise AssertionError("nobody announces steps to this worker")


class OwnSteps(StepRule):
    """Steps by a worker's own clock."""

    def may_begin(self, done: Limit, due: Limit) -> bool:
        return due > done

    def begin(self, done: Limit, due: Limit) -> list[Limit]:
        return [due] if due > done else []

    def at_cut(self, done: Limit, due: Limit) -> list[Limit]:
        return self.begin(done, due)


class AnnouncedSteps(StepRule):
    """Steps that rank 0 has announced, once the own clock has come as far."""

    def __init__(self) -> None:
        self._told: deque[Limit] = deque()

    def may_begin(self, done: Limit, due: Limit) -> bool:
        return bool(self._told) and self._told[0] <= due

    def begin(self, done: Limit, due: Limit) -> list[Limit]:
        found = []
        while self.may_begin(done, due):
            found.append(self._told.popleft())
        return found

    def at_cut(self, done: Limit, due: Limit) -> list[Limit]:
        # Rank 0 announces nothing between its mark and the last one, and its mark came behind what
        # it had announced; so all of that is due.
        found = self.begin(done, due)
        last = found[-1] if found else done
        return [*found, due] if due > last else found

    def announced(self, limit: Limit) -> None:
        self._told.append(limit)
