"""Pins fix the version that a batch of a query reads; the first process that asks chooses it.

A pinned version keeps its files, whatever the order in which a vacuum and a pin take their steps:

- Who pins the newest version n first *holds* it, by a file of its own. Then it looks for n + 1 and,
  after that, for n. If there is no n + 1, and n is there, the pin is created exclusively, and the
  hold is removed after that. Otherwise the hold is removed, and the newest version is tried.
- A vacuum lists the versions, then the holds, then the pins. It removes versions that are not the
  last one of its list and are neither held nor pinned, the oldest ones first.

If a vacuum removes n, its list of versions has a later one, so n + 1 had been committed by the end
of that list. Say that the look for n + 1 did not find it. Then either it was committed later, and
the hold was there before the vacuum listed holds: it lists the hold, or, where that is removed
already, the pin. Or n + 1 had been removed, and n before it: then the look for n did not find n.

A pin is never taken back, so all tasks of a batch read the same version. Who changes a relation
holds the version that it begins with, so that its pages stay, and no number below the newest one
becomes free: a change that another writer was faster with cannot be committed under an old number.

All this holds where all see a new name at once: on one machine, in object stores. Network file
systems remember for some seconds that a name is not there; there vacuum keeps versions for longer
than that (``keep_s``).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from penstock.errors import FileError, UsageError

from ...store.file_store import FileStore, Listed
from .reading import RelationReader
from .records import HOLDS, PINS

#: Times that the newest version is held after another one came while that was done.
_TRIES = 100


class Pins:
    """The pins of a relation, files ``pins/<query>/<batch>``, and its holds, ``holds/<id>``.

    Parameters
    ----------
    files : FileStore
        The relation's, or those of another place if the relation is read-only.
    """

    def __init__(self, files: FileStore) -> None:
        self._files = files

    def pin(self, query: str, batch: str, number: int) -> int:
        """Pin a version for a batch, unless one is pinned already; returns the pinned one.

        A version that is not held may be removed before it is pinned.

        Raises
        ------
        UsageError
            A name has a slash.
        FileError
        """
        chosen = self.chosen(query, batch)
        if chosen is not None:
            return chosen
        file = _pin_name(query, batch)
        self._files.make([f"{PINS}/{query}"])
        if self._files.put_new_json(file, {"version": number}):
            return number
        chosen = self._read(file)
        if chosen is None:
            raise FileError(f"{self._files.shown(file)} was removed while it was made; try again")
        return chosen

    def pin_newest(self, query: str, batch: str, relation: RelationReader) -> int:
        """Pin the newest version for a batch, unless one is pinned already.

        Raises
        ------
        UsageError
            A name has a slash.
        FileError
        """
        chosen = self.chosen(query, batch)
        if chosen is not None:
            return chosen
        with self.hold(relation) as number:
            return self.pin(query, batch, number)

    def chosen(self, query: str, batch: str) -> int | None:
        """Version pinned for a batch; None if there is none.

        Raises
        ------
        UsageError
            A name has a slash.
        FileError
        """
        return self._read(_pin_name(query, batch))

    @contextmanager
    def hold(self, relation: RelationReader) -> Iterator[int]:
        """Keep the newest version, and all that follow, as long as the ``with`` block lasts.

        Raises
        ------
        FileError
        """
        self._files.make([HOLDS])
        for _ in range(_TRIES):
            number = relation.newest()
            name = f"{HOLDS}/{uuid.uuid4().hex}"
            self._files.put_json(name, {"version": number})
            try:
                if relation.is_newest(number):
                    yield number
                    return
            finally:
                self._files.discard([name])  # what stays is removed by a later vacuum
        raise FileError(
            f"no version of {relation.name} can be kept: {_TRIES} times in a row there was a newer "
            "one at once; let fewer programs update it at once, and try again"
        )

    def _read(self, file: str) -> int | None:
        try:
            values = self._files.get_json(file)
        except FileError as error:
            raise FileError(f"{error}. If it is no pin, move it out of {PINS}") from error
        return None if values is None else int(values["version"])

    def numbers(self) -> set[int]:
        """Versions that are pinned.

        Raises
        ------
        FileError
        """
        return self._numbers(PINS)

    def needed(self) -> set[int]:
        """Versions that are held or pinned; call it after versions are listed.

        Raises
        ------
        FileError
        """
        held = self._numbers(HOLDS)  # before pins: a hold is removed after its pin is made
        return held | self._numbers(PINS)

    def _numbers(self, folder: str) -> set[int]:
        numbers = {self._read(file.name) for file in self._listed(folder)}
        return {number for number in numbers if number is not None}

    def _listed(self, folder: str) -> list[Listed]:
        listed = self._files.listed(folder, deep=True)
        return [file for file in listed if self._files.own_names.has(file.name)]

    def remove_older(self, age_s: float) -> None:
        """Remove pins that are older than some seconds.

        Raises
        ------
        FileError
        """
        before = time.time() - age_s
        self._remove(pin.name for pin in self._listed(PINS) if pin.changed < before)

    def _remove(self, names: Iterable[str]) -> None:
        """Remove pins; a file with the name of a pin that cannot be read as one stays."""
        for name in names:
            try:
                self._read(name)
            except FileError:
                continue
            self._files.remove([name])

    def remove_remains(self, age_s: float) -> None:
        """Remove files that killed programs have left, if they are older than some seconds.

        Raises
        ------
        FileError
        """
        before = time.time() - age_s
        self._files.remove_unfinished(PINS, before)
        holds = self._files.listed(HOLDS)
        self._files.remove(file.name for file in holds if file.changed < before)

    def remove_before(self, query: str, batch: int) -> None:
        """Remove a query's pins of batches below a number.

        Raises
        ------
        FileError
        """
        names = self._files.names(f"{PINS}/{query}")
        numbers = ((name, name.partition("-")[0]) for name in names)
        old = [name for name, number in numbers if number.isdecimal() and int(number) < batch]
        self._remove(f"{PINS}/{query}/{name}" for name in old)

    def unpin(self, query: str, batch: str) -> None:
        """Remove a pin, if it is there."""
        with suppress(FileNotFoundError):
            self._files.remove([f"{PINS}/{query}/{batch}"])


def _pin_name(query: str, batch: str) -> str:
    for name in (query, batch):
        if not name or "/" in name or name.startswith("."):
            raise UsageError(f"{name!r} cannot be the name of a pin")
    return f"{PINS}/{query}/{batch}"
