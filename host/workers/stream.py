"""Stream on worker processes of this machine: the calls that users make."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from penstock import arguments
from penstock.errors import OverloadError, UsageError, warn_untaken

from ..join.stream.running_query import Rows
from ..windows.feeds import ONLY
from ..windows.source import Span
from .opening import Opened
from .points import reached
from .results import Polled, PolledPart, table_of
from .turns import WorkerTurns


class WorkerStream(WorkerTurns[Rows]):
    """A running query over one source, on worker processes of this machine.

    Parameters
    ----------
    opened : Opened
        Owned. Of its ``flow``, ``running.timeout_s`` is the lease: for so long a worker may take
        nothing of what it was sent. ``memory_bytes`` bounds what this process holds; groups come
        on top, in the workers.
    disorder : int, timedelta, or mapping of source to either

    Raises
    ------
    ProcessError
        A worker does not come up, or differs from the others.
    """

    def __init__(self, opened: Opened, disorder: Span | Mapping[str, Span]) -> None:
        self._began = time.monotonic()
        self._target = 0
        self._offered: Polled | PolledPart | None = None
        self._returned: Polled | PolledPart | None = None
        try:
            super().__init__(opened, disorder)
        except BaseException:
            opened.close()
            raise
        try:
            # In the stream's thread: children are told of the end of the thread that made them.
            self._thread.call(self._start)
        except BaseException:
            self._thread.call(self._abandon)
            raise

    def position(self, source: str, feed: str = ONLY) -> int:
        self._require_own_process()
        sources = self._intake.find(arguments.text("source", source))
        arguments.text("feed", feed)
        return self._thread.call(lambda: min(self._intake.rows(one, feed) for one in sources))

    def stop(self) -> None:
        self._require_own_process()
        if self._opened.checkpoint is None:
            super().stop()  # refuses
        self._is_stopped = True
        error = self._thread.call(self._close)
        self._thread.join(self.flow.running.timeout_s)
        if error is not None:
            raise error

    @property
    def processes(self) -> list[int]:
        return self._driver.pids

    def failures(self) -> dict[str, int]:
        return {"workers": self._driver.losses}

    def __exit__(self, *exc: object) -> None:
        # Windows that are not complete must not be given as if they were.
        if self._opened.checkpoint is not None and exc and exc[0] is not None:
            self.stop()
            return
        rows = self.close()
        if isinstance(rows, pa.Table) and self._opened.checkpoint is None:
            warn_untaken(rows, *exc)  # with a checkpoint they are given again

    def poll(self) -> Rows:
        if self._opened.checkpoint is None:
            return super().poll()
        self._require_own_process()
        offered = self._thread.call(self._offer)
        output: Any = offered
        if self._opened.now:
            output = self.schema.empty_table() if offered is None else offered.rows
        self._returned = offered  # no call may follow, which could be interrupted
        return output

    def wait(self, rows: int, timeout_s: float) -> bool:
        if self._opened.checkpoint is None:
            return super().wait(rows, timeout_s)
        arguments.whole("rows", rows)
        return self.wait_for(lambda: self._pollable_rows() >= rows, timeout_s)

    # -- what calls need --------------------------------------------------------------------------

    def _check(self) -> None:
        super()._check()
        is_late = time.monotonic() > self._began + self.flow.push_timeout_s
        if is_late and (recorded := self._intake.recorded):
            source, feed = recorded[0]
            raise UsageError(
                f"the checkpoint has feed {feed!r} of {source}, which nobody has registered for "
                f"{self.flow.push_timeout_s:g} s, and no group is complete without it; register "
                f"it and push from position({source!r}, {feed!r}) on, or deregister it"
            )

    def _settle(self) -> None:
        """Wait until groups that a call completes can be polled, unless commits release them."""
        if self.flow.latency_s or self._opened.checkpoint is not None:
            return
        self.wait_for(
            lambda: self._seen >= self._cuts.covering or self.budget.results_full,
            self.flow.push_timeout_s,
        )

    def _cut_all(self) -> None:
        if not self._closed:
            self._target = self._cuts.want()

    def _drain(self, timeout_s: float) -> None:
        self._check()
        if self._closed or self.wait_for(lambda: self._seen >= self._target, timeout_s):
            return
        raise OverloadError(
            f"workers have not grouped all rows within {timeout_s:g} s; poll the results if many "
            "wait, use more workers, or give a longer push_timeout_s"
        )

    def _offer(self) -> Polled | PolledPart | None:
        """Return the next rows of a checkpoint, or again rows that did not reach the caller."""
        if self._offered is None or self._offered is self._returned:
            polled = self._parent.poll()
            self._offered = None
            if polled is None:
                self._check()
            else:
                number, batches = polled
                self._offered = Polled(number, table_of(batches, self.schema, self._ordered))
                self._tally.drop(number)
                self.budget.note()
        reached("release")
        return self._offered
