"""Writing of a worker's parts of checkpoints, in a thread beside the next epoch."""

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
from .records.part_files import PartFile, write_part


class PartWriter:
    """Thread that writes parts of checkpoints, one after the other.

    Parameters
    ----------
    folder : Path
    wake : callable
        Called when a part is written, or writing has failed.
    """

    def __init__(self, folder: Path, wake: Callable[[], None]) -> None:
        self._folder, self._id = folder, folder_id(folder)
        self._wake = wake
        self._inbox: SimpleQueue[WorkerPart | None] = SimpleQueue()
        #: State file of each part so far.
        self._states: list[PartFile] = []
        self._written: deque[PartWritten | Exception] = deque()
        self._thread = threading.Thread(target=self._run, name="penstock-parts", daemon=True)
        self._thread.start()

    def write(self, part: WorkerPart) -> None:
        """Queue a part to be written."""
        self._inbox.put(part)

    @property
    def has_written(self) -> bool:
        """Whether :meth:`take` has a part to return, or an error to raise."""
        return bool(self._written)

    def take(self) -> PartWritten | None:
        """Return the next part that has been written; None if there is none yet.

        Raises
        ------
        FileError
            A part could not be written.
        """
        if not self._written:
            return None
        written = self._written.popleft()
        if isinstance(written, Exception):
            raise written
        return written

    def close(self, timeout_s: float) -> None:
        """Write the queued parts, and end the thread."""
        self._inbox.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        while (part := self._inbox.get()) is not None:
            try:
                result: PartWritten | Exception = self._to_disk(part)
            except Exception as error:  # the worker's own thread raises it
                result = error
            self._written.append(result)
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
    """Return part files as JSON text, as a commit describes them; empty without parts."""
    return json.dumps([asdict(part) for part in parts]).encode() if parts else b""


def parts_of(text: bytes) -> list[PartFile]:
    """Return the part files of :func:`as_text`'s text."""
    return [PartFile(**one) for one in json.loads(text)] if text else []
