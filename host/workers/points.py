"""Named points at which tests end a process, to see what the others make of it.

``PENSTOCK_KILL=POINT:WHO:COUNT`` kills a process with SIGKILL when it comes to a point for the
COUNT-th time: WHO is a worker's rank, or ``parent``. Whoever starts workers gives them the variable
once, so that those that follow a killed one live.
"""

from __future__ import annotations

import os
import signal

#: Where processes can be killed; those of the parent, and those of workers.
PARENT_POINTS = ("push", "deal", "record", "committed", "release", "restart")
WORKER_POINTS = ("fold", "seal", "between slots", "merge", "mark", "part", "written", "restore")
#: A rank is both.
RANK_POINTS = tuple(p for p in PARENT_POINTS + WORKER_POINTS if p != "restart")

_VARIABLE = "PENSTOCK_KILL"
#: Point at which this process ends, and how often it still may come there.
_target: list[str | int] = []


def arm(who: str) -> None:
    """Read what is wanted of this process; others' points do nothing."""
    _target.clear()
    point, _, rest = os.environ.get(_VARIABLE, "").partition(":")
    wanted, _, count = rest.partition(":")
    if point and wanted == who:
        _target.extend((point, int(count)))


def reached(point: str) -> None:
    """Say that the process is at a point."""
    if _target and _target[0] == point:
        _target[1] = int(_target[1]) - 1
        if _target[1] == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def without_kill(environment: dict[str, str]) -> dict[str, str]:
    """Return an environment in which nothing is killed."""
    return {name: value for name, value in environment.items() if name != _VARIABLE}
