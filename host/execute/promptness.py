"""Lets threads that wake up run soon, though others are busy.

The interpreter lets a busy thread go on for its switch interval, 5 ms by default, each time another
one wants to run. A batch wakes some six threads one after the other, so that a latency target of 20
ms could not be kept beside a program that computes.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
import sys
import threading
from collections.abc import Callable
from functools import partial

#: Switch interval as a share of the latency target, and its least in seconds: below that, switching
#: itself costs the join's own threads more than it gains.
SHARE, LEAST_S = 1 / 40, 200e-6

#: Nanoseconds of a short slice, the least that Linux gives.
SLICE_NS = 100_000
#: Number of the system call by machine; libc has no function for it.
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274, "armv7l": 380}

_lock = threading.Lock()
_wanted: list[float] = []
_before = 0.0


def hold(latency_s: float) -> Callable[[], None]:
    """Shorten the interpreter's switch interval for a latency target.

    This applies to the whole process: the smallest of several targets counts, and an interval that
    is already shorter stays.

    Parameters
    ----------
    latency_s : float
        Target in seconds, above 0.

    Returns
    -------
    callable
        Ends this target; after the last one, the interval is again as before the first.
    """
    global _before
    interval = max(latency_s * SHARE, LEAST_S)
    with _lock:
        if not _wanted:
            _before = sys.getswitchinterval()
        _wanted.append(interval)
        _apply()
    return partial(_release, interval)


def only_computes() -> None:
    """Let other threads preempt the calling one as they wake: nothing waits for its start.

    It keeps its share of the processors. If the operating system has no such policy, or forbids it,
    nothing changes.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def run_in_short_slices() -> None:
    """Let the calling thread, and threads that it starts, get back on a processor soon.

    A thread taken off its processor while it holds the interpreter's lock keeps all others waiting,
    for some 3 ms if clients keep the processors busy. Since version 6.12, Linux gives threads that
    ask for shorter slices earlier turns, but not more time. Elsewhere nothing changes.
    """
    number = _SCHED_SETATTR.get(platform.machine())
    if sys.platform != "linux" or number is None:
        return
    policy, nice = os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)
    if policy not in (os.SCHED_OTHER, os.SCHED_BATCH):
        return
    # struct sched_attr: its size, policy, flags, nice, priority, and as sched_runtime the slice.
    attributes = struct.pack("=IIQiIQQQII", 56, policy, 0, nice, 0, SLICE_NS, 0, 0, 0, 0)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).syscall(number, 0, attributes, 0)


def _release(interval: float) -> None:
    with _lock:
        _wanted.remove(interval)
        _apply()


def _apply() -> None:
    sys.setswitchinterval(min([_before, *_wanted]))
