"""What the lanes did when, in the format of Chrome's and Perfetto's trace viewers."""

from __future__ import annotations

import json
import threading
import time
from os import PathLike
from pathlib import Path

from penstock.errors import FileError


class Trace:
    """Collects spans of time, if it is switched on.

    Parameters
    ----------
    on : bool
        False keeps nothing.
    """

    def __init__(self, on: bool = False) -> None:
        self.on = on
        self._began = time.monotonic()
        self._events: list[tuple[str, str, float, float, int]] = []
        self._lock = threading.Lock()

    def add(self, track: str, name: str, began: float, ended: float, work: int = 0) -> None:
        """Note that ``name`` went on from ``began`` to ``ended`` (monotonic seconds)."""
        if self.on:
            with self._lock:
                self._events.append((track, name, began, ended, work))

    def write(self, path: str | PathLike) -> None:
        """Write the trace as JSON.

        Raises
        ------
        FileError
        """
        with self._lock:
            events = list(self._events)
        tracks = {track: k for k, track in enumerate(dict.fromkeys(e[0] for e in events))}
        found: list[dict] = [
            {"ph": "M", "pid": 1, "tid": k, "name": "thread_name", "args": {"name": track}}
            for track, k in tracks.items()
        ]
        found += [
            {
                "ph": "X",
                "pid": 1,
                "tid": tracks[track],
                "name": name,
                "ts": round((began - self._began) * 1e6, 1),
                "dur": round((ended - began) * 1e6, 1),
                "args": {"evaluations": work} if work else {},
            }
            for track, name, began, ended, work in events
        ]
        try:
            Path(path).write_text(json.dumps({"traceEvents": found}))
        except OSError as cause:
            raise FileError(f"cannot write the trace to {path}: {cause.strerror}") from cause
