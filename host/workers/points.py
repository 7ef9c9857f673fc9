"""Named points at which tests kill a process, to see that the others recover.

``PENSTOCK_KILL=POINT:WHO:COUNT`` kills a process with SIGKILL when it comes to a point for the
COUNT-th time: WHO is a worker's rank, or ``parent``. Only the first workers of a stream get the
variable, so that their successors live.
"""

from __future__ import annotations

import os
import signal

#: Points of the parent, and of workers.
PARENT_POINTS = ("push", "deal", "record", "committed", "release", "restart")
WORKER_POINTS = ("fold", "seal", "between slots", "merge", "mark", "part", "written", "restore")
#: Points of a rank, which is parent and worker at once.
RANK_POINTS = tuple(p for p in PARENT_POINTS + WORKER_POINTS if p != "restart")

_VARIABLE = "PENSTOCK_KILL"
#: Point at which this process is killed, and how often it still has to come there.
_target: list[str | int] = []


def arm(who: str) -> None:
    """Read from the environment at which point this process is to be killed, if at any."""
    _target.clear()
    point, _, when = os.environ.get(_VARIABLE, "").partition(":")
    wanted, _, count = when.partition(":")
    if point and wanted == who:
        _target.extend((point, int(count)))


def reached(point: str) -> None:
    """Kill this process if it is at its point for the last time that was allowed."""
    if _target and _target[0] == point:
        _target[1] = int(_target[1]) - 1
        if _target[1] == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def without_kill(environment: dict[str, str]) -> dict[str, str]:
    """Return an environment without the variable."""
    return {name: value for name, value in environment.items() if name != _VARIABLE}
