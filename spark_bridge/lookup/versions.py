"""Which version of a relation the rows of a task meet.

All tasks of a batch query meet the version that the driver has named. A streaming DataFrame has no
hook on the driver, so the first task of a micro-batch pins a version, and the others read the pin;
so does every task of the micro-batch when Spark repeats it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from penstock.errors import FileError, UsageError
from penstock.host.relation import FolderRelation
from penstock.host.relation.folder.pins import Pins
from penstock.host.relation.folder.relation import file_store

from ..task import local_property

#: Spark's properties of the tasks of a micro-batch.
QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"

#: Times that another version is pinned after a vacuum was faster.
_TRIES = 10


@dataclass(frozen=True)
class FixedVersion:
    """A version that the driver has named."""

    number: int

    def choose(self, stored: FolderRelation, relation_id: str) -> int:
        """The version that the rows of this task meet."""
        return self.number


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

    def choose(self, stored: FolderRelation, relation_id: str) -> int:
        """The version that the rows of this task meet.

        Parameters
        ----------
        stored : FolderRelation
        relation_id : str
            Tells it from others that have their pins in the same place.

        Raises
        ------
        UsageError
            Spark does not say of which micro-batch the task is.
        FileError
            The pin cannot be read or written.
        """
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
            for _ in range(_TRIES):
                number = stored.newest() if self.number is None else self.number
                chosen = pins.pin(query, name, number)
                if chosen != number or self.number is not None or self._is_there(stored, chosen):
                    break
                # Removed between the look and the pin: nobody has read it by this pin.
                pins.unpin(query, name)
            else:
                raise FileError(
                    f"{_TRIES} times in a row a version of {stored.name} was removed before it "
                    "was pinned; let `penstock relation vacuum` keep more versions"
                )
        except FileError as error:
            if self.pins is not None:
                raise
            raise FileError(
                f"{error}. If the relation is read-only here, name another place that the "
                "executors can write, with pins="
            ) from error
        if chosen == number:
            # What stays is removed by a later batch, or by a vacuum.
            with suppress(FileError):
                pins.remove_before(query, int(batch) - self.kept_batches)
        return chosen

    @staticmethod
    def _is_there(stored: FolderRelation, number: int) -> bool:
        return stored.version_record(number) is not None
