"""Numbered records of a folder: each is a JSON file, written once, with its number in its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from penstock.errors import FileError

from .file_store import FileStore
from .own_names import NUMBER


@dataclass(frozen=True)
class NumberedNames:
    """Names of numbered records: a record appears as a whole or not at all, and never changes.

    Parameters
    ----------
    start : str
        Folder in the store and beginning of each name, such as ``versions/`` or ``record-``.
    digits : int
        Digits of a number; names of as many sort as numbers do. 0 for numbers as they are.
    """

    start: str
    digits: int = 0

    @property
    def pattern(self) -> str:
        """Regular expression of a name."""
        number = f"[0-9]{{{self.digits}}}" if self.digits else NUMBER
        return rf"{re.escape(self.start)}({number})\.json"

    def name(self, number: int) -> str:
        """Return the name of a record in its store."""
        return f"{self.start}{number:0{self.digits}d}.json"

    def number(self, name: str) -> int | None:
        """Return the number in a name; None for files that are no records."""
        match = re.fullmatch(self.pattern, name)
        return None if match is None else int(match[1])

    def numbers(self, files: FileStore) -> list[int]:
        """Return the numbers of the records that are in a store, ascending.

        Raises
        ------
        FileError
        """
        numbers = map(self.number, self._neighbours(files))
        return sorted(number for number in numbers if number is not None)

    def newest(self, files: FileStore, known: int = 0) -> int:
        """Return the greatest number of a record in a store; 0 if there is none.

        Parameters
        ----------
        files : FileStore
        known : int
            A number that was the newest one: then only the next numbers are looked for, which costs
            one or two looks at a name instead of a listing.

        Raises
        ------
        FileError
        """
        number = known
        while number and files.size(self.name(number + 1)) is not None:
            number += 1
        if number == known and (not number or files.size(self.name(number)) is None):
            # The first look, or older records are gone and newer ones with them.
            number = max(self.numbers(files), default=0)
        return number

    def keep_from(self, files: FileStore, first: int) -> None:
        """Remove older records, and other files of the store's own in their folder.

        Raises
        ------
        FileError
        """
        files.remove(
            name
            for name in self._neighbours(files)
            if (number := self.number(name)) is None or number < first
        )

    def _neighbours(self, files: FileStore) -> list[str]:
        """Names in a store of all files in the folder of the records."""
        folder, slash, _ = self.start.rpartition("/")
        return [folder + slash + name for name in files.names(folder)]


def put_once(files: FileStore, name: str, values: Mapping[str, Any]) -> bool:
    """Write values unless the name is taken; returns whether the file now has these values.

    Where the answer of a store was lost, the file is read: it may have been written all the same.

    Raises
    ------
    FileError
    """
    try:
        if files.put_new_json(name, values):
            return True
    except FileError:
        with suppress(FileError):
            if files.get_json(name) == values:
                return True
        raise
    return files.get_json(name) == values
