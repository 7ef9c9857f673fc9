"""Part files: blocks of bytes, written once, completely or not at all."""

from __future__ import annotations

import errno
import mmap
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from penstock.errors import FileError, limit_remedy

from ...store.atomic import atomic
from ...store.checksums import checksum

#: Advice once the cause of an error is removed.
AGAIN = "open the stream again, and it goes on from its last checkpoint"
_MAGIC = b"penstock part 1\n"
#: Length of a block, before each.
_LENGTH = struct.Struct("<Q")
#: Hexadecimal digits of a checksum, as :mod:`penstock.host.store.checksums` has them.
_DIGITS = 32

Buffer = bytes | bytearray | memoryview | Any


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


@contextmanager
def explained(folder: Path, doing: str) -> Iterator[None]:
    """Turn errors of the system into errors that say what to do.

    Raises
    ------
    FileError
    """
    try:
        yield
    except FileError:
        raise
    except OSError as cause:
        raise FileError(
            f"cannot {doing} in {folder}: {cause.strerror}; {_remedy(cause)}"
        ) from cause


def _remedy(cause: OSError) -> str:
    otherwise = f"look at that disk, and {AGAIN}"
    if cause.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR):
        otherwise = "give a folder that this user may write in"
    if cause.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"make room on that disk and {AGAIN}"
    return limit_remedy(cause, otherwise)


def write_part(folder: Path, name: str, blocks: Iterable[Buffer], rows: int = 0) -> PartFile:
    """Write blocks to a file, flush it to the disk, and then give it its name.

    Raises
    ------
    FileError
        The disk is full, or the folder cannot be written in.
    """
    sums, size = sha256(_MAGIC), len(_MAGIC)
    with (
        explained(folder, f"write {name}"),
        atomic(folder / name, durable=True) as partial,
        partial.open("xb") as file,
    ):
        file.write(_MAGIC)
        for block in blocks:
            bytes_of = memoryview(block).cast("B")
            head = _LENGTH.pack(len(bytes_of))
            for piece in (head, bytes_of):
                sums.update(piece)
                file.write(piece)
            size += len(head) + len(bytes_of)
    return PartFile(name, size, sums.hexdigest()[:_DIGITS], rows)


def read_part(folder: Path, part: PartFile) -> Sequence[memoryview]:
    """Return the blocks of a part, as views of the mapped file.

    Raises
    ------
    FileError
        It is missing or damaged.
    """
    path = folder / part.name
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            if size != part.nbytes:
                raise _damaged(path, f"it has {size:,} bytes of {part.nbytes:,}")
            content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except FileNotFoundError:
        raise _damaged(path, "it is missing") from None
    except FileError:
        raise
    except OSError as cause:
        raise FileError(f"cannot read {path}: {cause.strerror}; let this user read it") from cause
    if checksum(content) != part.checksum:
        raise _damaged(path, "its checksum does not fit its content")
    return list(_blocks(path, content))


def _blocks(path: Path, content: memoryview) -> Iterator[memoryview]:
    place = len(_MAGIC)
    if content[:place] != _MAGIC:
        raise _damaged(path, "it is no part of a checkpoint")
    while place < len(content):
        (length,) = _LENGTH.unpack_from(content, place)
        place += _LENGTH.size
        yield content[place : place + length]
        place += length


def _damaged(path: Path, why: str) -> FileError:
    return FileError(
        f"the checkpoint in {path.parent} is damaged: {path.name}: {why}; bring the folder back "
        "from a copy, or begin anew in an empty one and push from the beginning"
    )
