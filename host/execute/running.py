"""Settings of how a join runs on its devices."""

from __future__ import annotations

from dataclasses import dataclass

from penstock import arguments
from penstock.errors import UsageError

from ..device.base import TIMEOUT_S
from ..prune.sizes import Pruning, pruning_sizes
from .policy import POLICIES


@dataclass(frozen=True, kw_only=True)
class Running:
    """How a join runs; no setting changes its result, except for the order of rows.

    Parameters
    ----------
    ordered : bool
        Whether rows leave by the arrival of their later tuple, then of their earlier one.
    policy : str
        "round-robin" or "least-work", see :mod:`penstock.host.execute.policy`.
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
