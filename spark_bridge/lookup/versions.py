"""Chooses the version of a relation that the rows of a task meet.

All tasks of a batch query meet the version that the driver has named, and pinned. A streaming
DataFrame has no hook on the driver, so the first task of a micro-batch pins a version, and the
others read the pin; so does every task of the micro-batch when Spark repeats it.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass

from penstock.errors import FileError, PenstockError, UsageError
from penstock.host.relation import FolderRelation, Relation
from penstock.host.relation.folder.pins import Pins
from penstock.host.relation.folder.reading import file_store

from ..spark_task import local_property

#: Spark's properties of the tasks of a micro-batch.
QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"

#: Folder of the pins of batch queries.
DRIVERS = "drivers"
#: Seconds that a version stays pinned after the last batch query that reads it was planned.
PINNED_S = 24 * 3600.0

_log = logging.getLogger("penstock.spark")


class DriverPins:
    """Versions that batch queries of this process read, pinned until it ends.

    A DataFrame does not say when nobody will use it any more, nor what was made of it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._name = uuid.uuid4().hex
        #: Monotonic time in seconds at which a query was last planned, by relation and version.
        self._planned: dict[tuple[str, int], float] = {}

    def pin(self, stored: FolderRelation, wanted: int | None = None) -> int:
        """Pin a version of a relation, unless it is read-only; returns its number.

        Parameters
        ----------
        stored : FolderRelation
        wanted : int, optional
            By default the newest one. Another one may be gone before it is pinned.

        Raises
        ------
        FileError
            It cannot be read.
        """
        pins = self._pins(stored.name)
        try:
            with pins.hold(stored) as newest:
                number = newest if wanted is None else wanted
                pins.pin(DRIVERS, self._file(number), number)
        except PenstockError as error:
            number = stored.newest() if wanted is None else wanted
            _log.info("version %d of %s is not pinned: %s", number, stored.name, error)
            return number
        with self._lock:
            self._planned[stored.name, number] = time.monotonic()
        self._drop(time.monotonic() - PINNED_S)
        return number

    def release(self) -> None:
        """Remove all pins of this process."""
        self._drop(float("inf"))

    def _drop(self, before: float) -> None:
        """Remove the pins of versions for which no query was planned since a moment."""
        with self._lock:
            old = [key for key, planned in self._planned.items() if planned < before]
            for key in old:
                del self._planned[key]
        for location, number in old:  # without the lock: a store may take long to answer
            with suppress(PenstockError):  # a later vacuum may remove it
                self._pins(location).unpin(DRIVERS, self._file(number))

    def _file(self, number: int) -> str:
        return f"{self._name}-{number}"

    @staticmethod
    def _pins(location: str) -> Pins:
        return Pins(file_store(location))


#: The pins of this process.
DRIVER = DriverPins()
atexit.register(DRIVER.release)


@dataclass(frozen=True)
class FixedVersion:
    """A version that the driver has named."""

    number: int

    def choose(self, stored: Relation, relation_id: str) -> int:
        """The version that the rows of this task meet."""
        return self.number


@dataclass(frozen=True)
class OwnSnapshot:
    """The state of a server's table when a task asks: a snapshot of its own for each task."""

    def choose(self, stored: Relation, relation_id: str) -> int:
        """The version that the rows of this task meet."""
        return stored.newest()


@dataclass(frozen=True)
class PinnedVersion:
    """A version for each micro-batch, pinned by its first task.

    Parameters
    ----------
    location : str
        Of the relation.
    pins : str or None
        Where pins are; None: beside the relation.
    number : int or None
        What is pinned; None: the newest version at that moment.
    kept_batches : int
        How many micro-batches keep their pins: those that Spark can go back to.
    """

    location: str
    pins: str | None
    number: int | None
    kept_batches: int

    def choose(self, stored: Relation, relation_id: str) -> int:
        """The version that the rows of this task meet.

        Parameters
        ----------
        stored : Relation
            A folder.
        relation_id : str
            Tells it from others that have their pins in the same place.

        Raises
        ------
        UsageError
            Spark does not say of which micro-batch the task is.
        FileError
            The pin cannot be read or written.
        """
        assert isinstance(stored, FolderRelation)
        query, batch = local_property(QUERY_ID), local_property(BATCH_ID)
        if not query or not (batch or "").isdigit():
            raise UsageError(
                f"this task does not know its micro-batch, so it cannot tell which version of "
                f"{stored.name} to read: Spark's local properties {QUERY_ID} and {BATCH_ID} are "
                "missing. Join the batch DataFrame that foreachBatch gives: its version is fixed "
                "when the join is built"
            )
        assert batch is not None
        pins = Pins(file_store(self.pins or self.location))
        name = batch if self.pins is None else f"{batch}-{relation_id}"
        try:
            chosen = pins.chosen(query, name)
            is_first = chosen is None
            if chosen is None and self.number is not None:
                chosen = pins.pin(query, name, self.number)
            elif chosen is None:
                chosen = pins.pin_newest(query, name, stored)
        except FileError as error:
            if self.pins is not None:
                raise
            raise FileError(
                f"{error}. If the relation is read-only here, name another place that the "
                "executors can write, with pins="
            ) from error
        if is_first:
            # What stays is removed by a later batch, or by a vacuum.
            with suppress(FileError):
                pins.remove_before(query, int(batch) - self.kept_batches)
        return chosen
