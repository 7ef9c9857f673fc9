"""Writes a worker's parts of checkpoints, beside the next epoch."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from queue import SimpleQueue

from .dealt import packed
from .points import reached
from .protocol.commit import WorkerPart
from .protocol.messages import PartWritten
from .records.folder import folder_id
from .records.parts import PartFile, write_part


class PartWriter:
    """A thread that writes parts, one after the other.

    Parameters
    ----------
    folder : Path
    wake : callable
        Called when a part is written, or has failed.
    """

    def __init__(self, folder: Path, wake: Callable[[], None]) -> None:
        self._folder, self._id = folder, folder_id(folder)
        self._wake = wake
        self._inbox: SimpleQueue[WorkerPart | None] = SimpleQueue()
        #: Of each part so far.
        self._states: list[PartFile] = []
        self._written: deque[PartWritten | Exception] = deque()
        self._thread = threading.Thread(target=self._run, name="penstock-parts", daemon=True)
        self._thread.start()

    def write(self, part: WorkerPart) -> None:
        """Write a part some time."""
        self._inbox.put(part)

    @property
    def has_written(self) -> bool:
        """Whether :meth:`take` has something to give."""
        return bool(self._written)

    def take(self) -> PartWritten | None:
        """Return the next part that is on the disk; None if there is none yet.

        Raises
        ------
        FileError
            It could not be written.
        """
        if not self._written:
            return None
        found = self._written.popleft()
        if isinstance(found, Exception):
            raise found
        return found

    def close(self, timeout_s: float) -> None:
        """Write what is left, and end the thread."""
        self._inbox.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (part := self._inbox.get()) is not None:
            try:
                found: PartWritten | Exception = self._to_disk(part)
            except Exception as error:  # the worker's own thread raises it
                found = error
            self._written.append(found)
            self._wake()

    def _to_disk(self, part: WorkerPart) -> PartWritten:
        name = f"part-{part.number:010d}-{part.rank:04d}-{self._id}"
        reached("part")
        blocks = [block for block in part.state if not isinstance(block, int)]
        written = write_part(self._folder, f"{name}.state", blocks)
        states = [self._states[n] for n in part.state if isinstance(n, int)]
        states.append(replace(written, rank=part.rank))
        self._states.append(states[-1])
        rows = sum(batch.num_rows for batch in part.rows)
        files: list[PartFile] = []
        if rows:
            packs = [packed(batch) for batch in part.rows]
            written = write_part(self._folder, f"{name}.rows", packs, rows)
            files.append(replace(written, rank=part.rank))
        reached("written")
        return PartWritten(
            part.incarnation,
            part.number,
            as_text(states),
            as_text(files),
        )


def as_text(parts: Sequence[PartFile]) -> bytes:
    """Return descriptions of parts; empty without parts."""
    return json.dumps([asdict(part) for part in parts]).encode() if parts else b""


def parts_of(text: bytes) -> list[PartFile]:
    """Return the parts of :func:`as_text`."""
    return [PartFile(**one) for one in json.loads(text)] if text else []
