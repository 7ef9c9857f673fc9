"""Records of a writer's batches: a file for each of the last ones, old ones folded together.

A record says which files of rows a batch has; it never changes, only the file in which it stands.
``commits/<writer>/<batch>.json`` is a batch's own. When there are many, the oldest are written once
more into one file, ``folded/<writer>/1/<first>-<last>.json``, and removed; files of level 1 are
folded into one of level 2, and so on, so that their number grows with the logarithm of that of the
batches. Files of rows stay where they are.

A crash leaves a record in two files, which say the same. Readers look through the levels upwards,
the way that records go, and so miss none that moves meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.errors import FileError
from penstock.host.rows.atomic import atomic, flush
from penstock.host.rows.file_store import unwritable
from penstock.host.rows.own_names import NUMBER, OwnNames

#: End of messages about failed writes: what to do when the cause is removed.
AGAIN = "start the query again: it goes on where it was"

#: Records that are folded into one file of level 1, and files that are folded into one of the next
#: level. Twice as many stay before that happens, so that what is new stays as it is.
SPAN, NEXT_SPAN = 100, 10
#: Names of a batch's own file, and of a file of a level.
_BATCH, _FOLDED = OwnNames(rf"{NUMBER}\.json"), OwnNames(rf"{NUMBER}-{NUMBER}\.json")


@dataclass(frozen=True)
class BatchFile:
    """Rows of a batch that one task wrote.

    Parameters
    ----------
    name : str
        Within the folder.
    rows, bytes : int
    """

    name: str
    rows: int
    bytes: int


#: Files of batches by number.
Batches = dict[int, list[BatchFile]]


@dataclass(frozen=True)
class Records:
    """The records of a writer.

    Parameters
    ----------
    folder : str
        Of all batches.
    writer : str
    """

    folder: str
    writer: str

    def put(self, batch: int, files: Iterable[BatchFile]) -> bool:
        """Write the record of a batch; False if there is one, which is left as it is.

        Raises
        ------
        FileError
        """
        text = json.dumps({"files": [asdict(file) for file in files]}, indent=1)
        return put(self._own / f"{batch}.json", text)

    def latest(self) -> int | None:
        """Number of the last batch; None if there is none."""
        return max(self._single(), default=None)

    def is_there(self, batch: int) -> bool:
        """Whether a batch has a record."""
        return (self._own / f"{batch}.json").exists() or batch in self.between(batch - 1, batch)

    def between(self, after: int, last: int | None) -> Batches:
        """Batches with numbers above ``after`` and up to ``last``, ascending.

        Raises
        ------
        FileError
        """
        wanted = [n for n in self._single() if n > after and (last is None or n <= last)]
        found: Batches = {}
        for number in wanted:
            files = self._read(self._own / f"{number}.json")
            if files is not None:  # else folded meanwhile
                found |= files
        level = 1
        while (paths := self._level(level)) is not None:
            for path in paths:
                first, final = _range(path)
                if final > after and (last is None or first <= last):
                    # Files that are gone are in the next level.
                    found |= self._read(path) or {}
            level += 1
        return {n: found[n] for n in sorted(found) if n > after and (last is None or n <= last)}

    def fold(self) -> None:
        """Fold the oldest records, if there are many.

        Raises
        ------
        FileError
        """
        own = [self._own / f"{n}.json" for n in self._single()]
        level = 0
        while len(own) >= 2 * (span := NEXT_SPAN if level else SPAN):
            self._fold(own[:span], level + 1)
            level += 1
            own = self._level(level) or []

    def _fold(self, paths: list[Path], level: int) -> None:
        """Write what is in some files into one of a level, and remove them."""
        whole: Batches = {}
        for path in paths:
            found = self._read(path)
            if found is None:
                return  # another driver of the query folds
            whole |= found
        name = f"{min(whole)}-{max(whole)}.json"
        text = json.dumps({str(n): [asdict(f) for f in whole[n]] for n in sorted(whole)})
        target = self._folded / str(level) / name
        if not put(target, text):  # it may be of a driver that was killed before it removed these
            there = self._read(target) or {}
            if any(there.get(number) != files for number, files in whole.items()):
                return
        for folder in target.parents[:4]:  # new ones, up to that of all batches
            flush(folder)
        for path in paths:
            path.unlink(missing_ok=True)

    # -- files ------------------------------------------------------------------------------------

    @property
    def _own(self) -> Path:
        return Path(self.folder, "commits", self.writer)

    @property
    def _folded(self) -> Path:
        return Path(self.folder, "folded", self.writer)

    def _single(self) -> list[int]:
        """Numbers of the batches with a file of their own, ascending."""
        return sorted(int(p.stem) for p in self._own.glob("*.json") if _BATCH.has(p.name))

    def _level(self, level: int) -> list[Path] | None:
        """Files of a level, ascending; None above the highest."""
        folder = self._folded / str(level)
        if not folder.is_dir():
            return None
        return sorted((p for p in folder.glob("*.json") if _FOLDED.has(p.name)), key=_range)

    def _read(self, path: Path) -> Batches | None:
        """The records in a file; None if it is gone."""
        with readable(path):
            try:
                found = json.loads(path.read_bytes())
            except FileNotFoundError:
                return None
            if path.parent == self._own:
                found = {path.stem: found["files"]}
            return {int(n): [BatchFile(**one) for one in files] for n, files in found.items()}


def _range(path: Path) -> tuple[int, int]:
    first, _, last = path.stem.partition("-")
    return int(first), int(last)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Say what to do where a file cannot be read.

    Raises
    ------
    FileError
    """
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:  # Arrow's are too
        message = f"{path} cannot be read: {error}; restore the folder from a backup"
        raise FileError(message) from error


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A name to write a new file under; when complete, it survives a crash of the machine.

    Raises
    ------
    FileExistsError
        There is such a file.
    FileError
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"cannot make {path.parent}: {error.strerror}; choose a path that the driver and all "
            "workers can write"
        ) from error
    try:
        with atomic(path, replace=False, durable=True) as partial:
            yield partial
    except (FileError, FileExistsError):
        raise
    except OSError as error:
        raise unwritable(str(path), error, AGAIN) from error


def put(path: Path, text: str) -> bool:
    """Write a new text file; False if there is one, which is left as it is."""
    try:
        with new_file(path) as partial:
            partial.write_text(text, encoding="utf-8")
    except FileExistsError:
        return False
    return True
