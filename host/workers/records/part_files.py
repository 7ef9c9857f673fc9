"""Part files: blocks of bytes, written once, completely or not at all."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import FileError

from ...store.checksums import Buffer
from ...store.file_store import FileStore
from ...store.own_names import OwnNames

#: Advice once the cause of an error is removed.
AGAIN = "open the stream again, and it goes on from its last checkpoint"
#: Advice for lost and damaged files.
LOST = (
    "bring the folder back from a copy, or begin anew in an empty one and push from the beginning"
)
_MAGIC = b"penstock part 1\n"
#: Length of a block, before each.
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class PartFile:
    """Description of a part file in a record.

    Parameters
    ----------
    name : str
        In the folder of the record.
    nbytes : int
    checksum : str
    rows : int
        Number of output rows; 0 in parts of state.
    rank : int
        Of the worker that wrote it.
    """

    name: str
    nbytes: int
    checksum: str
    rows: int = 0
    rank: int = 0


def files_of(folder: Path, *own_names: str) -> FileStore:
    """Return the store of a folder of checkpoints.

    Parameters
    ----------
    folder : Path
    own_names : str
        Regular expressions of the names that may be removed.
    """
    return FileStore(str(folder), lost=LOST, again=AGAIN, own_names=OwnNames(*own_names))


def write_part(folder: Path, name: str, blocks: Iterable[Buffer], rows: int = 0) -> PartFile:
    """Write blocks to a file, flush it to the disk, and then give it its name.

    Raises
    ------
    FileError
        The disk is full, or the folder cannot be written in.
    """
    written = files_of(folder).put(name, *_pieces(blocks))
    return PartFile(name, *written, rows)


def _pieces(blocks: Iterable[Buffer]) -> Iterator[Buffer]:
    yield _MAGIC
    for block in blocks:
        yield _LENGTH.pack(memoryview(block).nbytes)
        yield block


def read_part(folder: Path, part: PartFile) -> Sequence[memoryview]:
    """Return the blocks of a part, as views of the mapped file.

    Raises
    ------
    FileError
        It is missing or damaged.
    """
    files = files_of(folder)
    files.require(part.name, part.nbytes)
    content = memoryview(files.content(part.name, part.checksum)).cast("B")
    if content[: len(_MAGIC)] != _MAGIC:
        raise FileError(f"{files.shown(part.name)} is no part of a checkpoint; {LOST}")
    return list(_blocks(content))


def _blocks(content: memoryview) -> Iterator[memoryview]:
    place = len(_MAGIC)
    while place < len(content):
        (length,) = _LENGTH.unpack_from(content, place)
        place += _LENGTH.size
        yield content[place : place + length]
        place += length
