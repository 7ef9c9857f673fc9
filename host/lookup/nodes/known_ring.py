"""The ring that a process knows, and how it learns of a newer one."""

from __future__ import annotations

import logging
import threading
import time

from penstock.errors import FileError

from ...store.file_store import FileStore
from .record import newest_ring, read_ring
from .ring import Ring

_log = logging.getLogger("penstock.relation.nodes")

#: Seconds between looks for a newer record, while no other process names one.
LOOK_S = 1.0


class KnownRing:
    """The newest ring that could be read; an older one makes answers slower, not wrong.

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
        self._heard = 0
        self._next = time.monotonic() + LOOK_S

    @property
    def number(self) -> int:
        """Number of the newest record that was seen; 0 for none."""
        return self._seen

    def ring(self, known: int = 0) -> Ring | None:
        """The current ring; None if there are no nodes.

        Parameters
        ----------
        known : int
            Number of a record that another process knows.
        """
        now = time.monotonic()
        if known <= max(self._seen, self._heard) and now < self._next:
            return self._ring
        with self._lock:
            if known > max(self._seen, self._heard) or now >= self._next:
                self._heard, self._next = max(known, self._heard), now + LOOK_S
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
