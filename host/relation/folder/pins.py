"""Pins: which version a batch of a query reads, chosen once by whoever comes first."""

from __future__ import annotations

import time
from contextlib import suppress

from penstock.errors import FileError, UsageError

from ...rows.file_store import FileStore

PINS = "pins"


class Pins:
    """The pins of a relation: files ``pins/<query>/<batch>``.

    Parameters
    ----------
    files : FileStore
        The relation's, or those of another place if the relation is read-only.
    """

    def __init__(self, files: FileStore) -> None:
        self._files = files

    def pin(self, query: str, batch: str, number: int) -> int:
        """Choose a version for a batch, unless one is chosen already; returns the chosen one.

        Raises
        ------
        UsageError
            A name has a slash.
        FileError
        """
        for name in (query, batch):
            if not name or "/" in name or name.startswith("."):
                raise UsageError(f"{name!r} cannot be the name of a pin")
        file = f"{PINS}/{query}/{batch}"
        chosen = self._read(file)
        if chosen is not None:
            return chosen
        self._files.make([f"{PINS}/{query}"])
        if self._files.put_new_json(file, {"version": number}):
            return number
        chosen = self._read(file)
        if chosen is None:
            raise FileError(f"{self._files.shown(file)} was removed while it was made; try again")
        return chosen

    def _read(self, file: str) -> int | None:
        values = self._files.get_json(file)
        return None if values is None else int(values["version"])

    def numbers(self) -> set[int]:
        """Versions that are pinned.

        Raises
        ------
        FileError
        """
        found = {self._read(f"{PINS}/{file.name}") for file in self._listed()}
        return {number for number in found if number is not None}

    def _listed(self) -> list:
        return [
            file
            for file in self._files.listed(PINS, deep=True)
            if not file.name.rpartition("/")[2].startswith(".")
        ]

    def remove_older(self, age_s: float) -> None:
        """Remove pins that are older than some seconds.

        Raises
        ------
        FileError
        """
        before = time.time() - age_s
        self._files.remove(f"{PINS}/{f.name}" for f in self._listed() if f.changed < before)

    def remove_before(self, query: str, batch: int) -> None:
        """Remove a query's pins of batches below a number.

        Raises
        ------
        FileError
        """
        names = self._files.names(f"{PINS}/{query}")
        old = [
            n for n in names if (number := n.partition("-")[0]).isdigit() and int(number) < batch
        ]
        self._files.remove(f"{PINS}/{query}/{name}" for name in old)

    def unpin(self, query: str, batch: str) -> None:
        """Remove a pin, if it is there."""
        with suppress(FileNotFoundError):
            self._files.remove([f"{PINS}/{query}/{batch}"])
