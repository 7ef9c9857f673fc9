"""Traces of the lanes' work, in the format of Chrome's and Perfetto's trace viewers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike

from penstock.errors import FileError

from ..store.location import local_path


@dataclass(frozen=True)
class TraceEvent:
    """A span of time in which a lane or device did one thing.

    Parameters
    ----------
    track : str
        The lane or device.
    name : str
        The kind of work.
    began, ended : float
        Monotonic seconds.
    numbers : mapping of str to float
        Further numbers of the work.
    """

    track: str
    name: str
    began: float
    ended: float
    numbers: Mapping[str, float]


class Trace:
    """Collects events, if it is switched on.

    Parameters
    ----------
    on : bool
        False keeps nothing.
    """

    def __init__(self, on: bool = False) -> None:
        self.on = on
        self._began = time.monotonic()
        self._spans: list[TraceEvent] = []
        #: Events that a sample still takes; None if all are recorded, or none.
        self._left: int | None = None
        self._sampled = 0
        self._lock = threading.Lock()

    def add(self, track: str, name: str, began: float, ended: float, **numbers: float) -> None:
        """Add an event from ``began`` to ``ended`` (monotonic seconds)."""
        if self.on:
            with self._lock:
                self._spans.append(TraceEvent(track, name, began, ended, numbers))
                if self._left is not None:
                    self._left -= 1
                    self.on = self._left > 0

    @property
    def spans(self) -> list[TraceEvent]:
        """Events so far."""
        with self._lock:
            return list(self._spans)

    def sample(self, most: int) -> list[TraceEvent]:
        """Return what was recorded since the last call, and record as many further events.

        So a page costs little, however many events there are. A trace that is on keeps all, and
        returns the latest.
        """
        with self._lock:
            if self.on and self._left is None:
                begin = max(self._sampled, len(self._spans) - most)
                self._sampled = len(self._spans)
                return self._spans[begin:]
            recorded, self._spans = self._spans, []
            self._left, self.on = most, True
            return recorded

    def end_samples(self) -> None:
        """Record no further samples."""
        with self._lock:
            if self._left is not None:
                self._spans, self._left, self.on = [], None, False

    def write(self, path: str | PathLike) -> None:
        """Write the trace as JSON.

        Raises
        ------
        FileError
        """
        target, spans = local_path(path), self.spans
        tracks = {track: k for k, track in enumerate(dict.fromkeys(s.track for s in spans))}
        events: list[dict] = [
            {"ph": "M", "pid": 1, "tid": k, "name": "thread_name", "args": {"name": track}}
            for track, k in tracks.items()
        ]
        events += [
            {
                "ph": "X",
                "pid": 1,
                "tid": tracks[span.track],
                "name": span.name,
                "ts": self._us(span.began),
                "dur": round((span.ended - span.began) * 1e6, 1),
                "args": dict(span.numbers),
            }
            for span in spans
        ]
        try:
            target.write_text(json.dumps({"traceEvents": events}))
        except OSError as cause:
            raise FileError(f"cannot write the trace to {path}: {cause.strerror}") from cause

    def _us(self, moment: float) -> float:
        return round((moment - self._began) * 1e6, 1)
