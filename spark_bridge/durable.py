"""Files that are there as a whole or not at all, also after a crash."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from penstock.errors import FileError

#: Ending of a file that is being written.
TEMPORARY = ".tmp"


def write_whole(path: Path, write: Callable[[BinaryIO], None], *, replace: bool = True) -> bool:
    """Write a file under another name, flush it to the disk, and give it its own name.

    Parameters
    ----------
    path : Path
        Its folder must be there.
    write : callable
        Writes the content into a binary file.
    replace : bool
        Whether a file of that name is replaced; otherwise it stays as it is.

    Returns
    -------
    bool
        Whether the file is now what was written; False where another one stays.

    Raises
    ------
    FileError
    """
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex}{TEMPORARY}")
    try:
        try:
            with open(temporary, "xb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            if replace:
                temporary.rename(path)
            else:
                os.link(temporary, path)
                temporary.unlink()
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the name, too, must survive a crash
        finally:
            os.close(folder)
    except OSError as error:
        if not replace and error.errno == errno.EEXIST:
            return False
        why = error.strerror or str(error)
        remedy = "see that the driver and all workers can write there"
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            remedy = "free or add space"
        raise FileError(
            f"cannot write {path}: {why}; {remedy} and start the query again: it goes on where "
            "it was"
        ) from error
    return True


def write_text(path: Path, text: str, *, replace: bool = True) -> bool:
    """Write text in UTF-8; otherwise as :func:`write_whole`."""

    def write(file: BinaryIO) -> None:
        file.write(text.encode())

    return write_whole(path, write, replace=replace)
