"""The ring that a process knows, and how it learns of a newer one."""

from __future__ import annotations

import logging
import threading
import time

from penstock.errors import FileError

from ...rows.file_store import FileStore
from .record import newest_ring, read_ring
from .ring import Ring

_log = logging.getLogger("penstock.relation.nodes")

#: Seconds between looks for a newer record, while nobody tells of one.
LOOK_S = 1.0


class KnownRing:
    """The newest ring that could be read. With an older one, answers are slower, not wrong.

    Parameters
    ----------
    store : FileStore
        The relation's files.
    """

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._seen = newest_ring(store)
        self._ring = read_ring(store)
        self._told = 0
        self._next = time.monotonic() + LOOK_S

    @property
    def number(self) -> int:
        """Of the newest record that was seen; 0 for none."""
        return self._seen

    def ring(self, told: int = 0) -> Ring | None:
        """The ring to go by; None if there are no nodes.

        Parameters
        ----------
        told : int
            Number of a record that somebody else knows.
        """
        now = time.monotonic()
        if told <= max(self._seen, self._told) and now < self._next:
            return self._ring
        with self._lock:
            if told > max(self._seen, self._told) or now >= self._next:
                self._told, self._next = max(told, self._told), now + LOOK_S
                self._look()
        return self._ring

    def _look(self) -> None:
        try:
            newest = newest_ring(self._store, self._seen)
            if newest != self._seen:
                self._seen = newest  # a damaged record is not read again and again
                self._ring = read_ring(self._store, newest)
        except FileError as error:
            _log.warning("%s", error)
