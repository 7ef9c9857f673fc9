"""Where a streaming join keeps what it knows: in Spark's checkpoint, or in a store of its own."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlparse

from penstock.spark_bridge.streaming.storage import storage_of
from penstock.spark_bridge.streaming.store import Store

#: Folder of the join's state within Spark's checkpoint.
FOLDER = "penstock"


@dataclass(frozen=True)
class Place:
    """The two locations of a query.

    Parameters
    ----------
    checkpoint : str
        Of Spark.
    own : str, optional
        Of the join's files, where they are not in the checkpoint.
    """

    checkpoint: str
    own: str | None = None

    @property
    def store(self) -> Store:
        """The join's files.

        Raises
        ------
        UsageError
            They would be in a kind of store that Penstock cannot write.
        """
        location = self.own or f"{self.checkpoint.rstrip('/')}/{FOLDER}"
        if urlparse(location).scheme in ("", "file"):
            location = storage_of(location).root  # absolute: workers run elsewhere
        return Store(location)

    def identity(self) -> dict[str, str]:
        """What of it must not change while a query lives."""
        # In the checkpoint the files move with it; elsewhere they belong to one.
        return {} if self.own is None else {"checkpointLocation": storage_of(self.checkpoint).root}
