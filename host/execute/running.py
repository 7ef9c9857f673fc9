"""Settings of how a join runs on its devices, and policies: which lane gets the next task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from penstock import arguments
from penstock.errors import UsageError

from ..device.base import TIMEOUT_S
from ..prune.sizes import Pruning, pruning_sizes


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


@dataclass(frozen=True, kw_only=True)
class Running:
    """How a join runs; no setting changes its result, except for the order of rows.

    Parameters
    ----------
    ordered : bool
        Whether rows leave by the arrival of their later tuple, then of their earlier one.
    policy : str
        "round-robin" or "least-work", see :mod:`penstock.host.execute.running`.
    task_evaluations : int, optional
        Most evaluations of one task; by default the least that a device asks for.
    timeout_s : float
        Seconds after which a task counts as hung.
    depth : int
        Tasks in flight on a lane.
    most_failures : int
        Failures in a row after which a lane is parked.
    pruning : bool or Pruning
        Whether pairs that cannot match are left out, and by which sizes.

    Examples
    --------
    >>> penstock.sql(near, tables, time=time, running=penstock.Running(ordered=True)).num_rows
    1
    """

    ordered: bool = False
    policy: str = "round-robin"
    task_evaluations: int | None = None
    timeout_s: float = TIMEOUT_S
    depth: int = 2
    most_failures: int = 3
    pruning: bool | Pruning = True

    def __post_init__(self) -> None:
        if arguments.text("policy", self.policy) not in POLICIES:
            raise UsageError(f"policy is one of {', '.join(POLICIES)}, not {self.policy!r}")
        arguments.flag("ordered", self.ordered)
        arguments.seconds("timeout_s", self.timeout_s, above=0)
        for name in ("task_evaluations", "depth", "most_failures"):
            value = getattr(self, name)
            if value is not None:
                arguments.whole(name, value, least=1)
        pruning_sizes(self.pruning)

    @property
    def sizes(self) -> Pruning | None:
        """Sizes of pruning; None if pruning is off."""
        return pruning_sizes(self.pruning)
