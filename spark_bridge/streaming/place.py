"""Locates a streaming join's state: in Spark's checkpoint, or in a store of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from penstock.host.store.checksums import checksum
from penstock.host.store.file_store import FileStore
from penstock.host.store.location import Location

from .store import Store, file_store

#: Folder of the join's state within Spark's checkpoint.
FOLDER = "penstock"


@dataclass(frozen=True)
class QueryPlace:
    """Locations of a query's files.

    Parameters
    ----------
    checkpoint : str
        Of Spark.
    store_location : str, optional
        Of the join's files, if they are not in the checkpoint.
    """

    checkpoint: str
    store_location: str | None = None

    @property
    def store(self) -> Store:
        """The join's files.

        Raises
        ------
        UsageError
            They would be in a kind of store that Penstock cannot write.
        """
        location = self.store_location or f"{self.checkpoint.rstrip('/')}/{FOLDER}"
        if Location.parse(location).path is not None:
            location = file_store(location).root  # absolute: workers run elsewhere
        return Store(location)

    def position(self, batch: int, known: Mapping[str, str]) -> dict[str, str]:
        """Checksums of the files in which Spark's checkpoint notes its query and a batch's rows.

        Spark writes these files before the batch and never changes them, but does not check them
        when it reads them again: after damage it would go on with other rows, without an error.

        Parameters
        ----------
        batch : int
        known : mapping of str to str
            Checksums from the batch before it, so that each file is read once.

        Returns
        -------
        dict of str to str
            By name in the checkpoint; missing files are left out.
        """
        files = file_store(self.checkpoint)
        offsets = f"offsets/{batch}"
        # A line for the version, one for the batch, and one per source.
        sources = len((files.get(offsets) or b"").splitlines()) - 2
        logs = [f"sources/{k}/{n}" for k in range(sources) for n in _logs(files, k)]
        noted = {name: known[name] for name in logs if name in known}
        return noted | self.checksums(
            ["metadata", offsets, *(name for name in logs if name not in known)]
        )

    def checksums(self, names: Iterable[str]) -> dict[str, str]:
        """Checksums of those files of Spark's checkpoint that exist."""
        files = file_store(self.checkpoint)
        contents = {name: files.get(name) for name in names}
        return {name: checksum(one) for name, one in contents.items() if one is not None}

    def identity(self) -> dict[str, str]:
        """The part of it that must not change from start to start."""
        # In the checkpoint the files move with it; elsewhere they belong to one.
        if self.store_location is None:
            return {}
        return {"checkpointLocation": file_store(self.checkpoint).root}


def log_number(name: str) -> int:
    """The number of a file in one of Spark's logs; -1 for any other file."""
    number = PurePosixPath(name).name.removesuffix(".compact")
    return int(number) if number.isdecimal() else -1


def _logs(files: FileStore, source: int) -> list[str]:
    """Files in which a source has noted its rows."""
    return [name for name in files.names(f"sources/{source}") if log_number(name) >= 0]
