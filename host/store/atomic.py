"""Atomic writes: a file exists as a whole or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic(path: Path, *, replace: bool = True, durable: bool = False) -> Iterator[Path]:
    """Give a temporary name to write to; the file gets its own when the ``with`` block succeeds.

    Parameters
    ----------
    path : Path
        Its folder must exist.
    replace : bool
        Whether to replace an existing file.
    durable : bool
        Whether file and name are flushed to the disk, to survive a crash of the machine.

    Raises
    ------
    FileExistsError
        The file exists, and ``replace`` is false.
    OSError
    """
    # In the same folder, since a rename is atomic only within a file system. Hidden: programs that
    # read all files of a folder pass it over.
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex}.partial")
    try:
        yield partial
        if durable:
            flush(partial)
        if replace:
            os.replace(partial, path)
        else:
            os.link(partial, path)
        if durable:
            flush(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
