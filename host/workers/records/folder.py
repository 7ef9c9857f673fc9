"""Folder of a stream's checkpoints: its lock, its newest record, and removal of old files."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import time
import uuid
from contextlib import suppress
from pathlib import Path
from threading import Event

from penstock.errors import FileError

from ...store.file_store import explained
from ...store.own_names import UUID, OwnNames
from .part_files import AGAIN, files_of
from .record import NAMES, Record, read_record, write_record

_LOCK = "lock"
#: Lock that all ranks of a stream share, which write parts without holding the main lock.
_SHARED = "ranks"
#: Seconds to wait for processes that hold the lock and were killed.
_LOCKED_S = 10.0
_LOOK_S = 0.02
#: Names of parts, by what ends them: the folder's id.
_PART = r"part-[0-9]{{10}}-[0-9]{{4}}{}\.(?:state|rows)"
_RECORDS = OwnNames(NAMES.pattern)


class CheckpointFolder:
    """Folder of checkpoints, locked by a stream and its workers until all these have ended.

    The file ``lock`` holds a random id, which is in the name of every part. So files of this stream
    can be told from others that the user keeps there.

    Parameters
    ----------
    path : Path
        It is made if it is missing.
    lock_s : float
        Seconds to wait for another stream to end.

    Raises
    ------
    FileError
        It cannot be written in, or another stream uses it.
    """

    def __init__(self, path: Path, lock_s: float = _LOCKED_S) -> None:
        self.path = path
        if path.is_file():
            raise FileError(
                f"cannot keep checkpoints in {path}, which is a file; give a folder, or a path "
                "where one can be made"
            )
        files_of(path).make([""])
        self.lock = _opened(path, _LOCK)
        deadline = time.monotonic() + lock_s
        try:
            self._await(self.lock, deadline)
            end = f"-{self._known_id()}"
            self._parts = OwnNames(_PART.format(end))
            self._files = files_of(path, _PART.format(f"(?:-{UUID})?"), NAMES.pattern)
            if os.path.lexists(path / _SHARED):  # ranks of an earlier start may still write
                shared = _opened(path, _SHARED)
                try:
                    self._await(shared, deadline)
                finally:
                    os.close(shared)
        except BaseException:
            self.close()
            raise

    def _known_id(self) -> str:
        """Return the folder's id; one is made if the lock is empty: new, or of an older release.

        Parts of older releases have no id in their names: they are removed only if a record names
        them.
        """
        with explained(str(self.path / _LOCK), AGAIN):
            if not folder_id(self.path):
                os.pwrite(self.lock, uuid.uuid4().hex.encode(), 0)
                os.fsync(self.lock)
            return folder_id(self.path)

    def _await(self, lock: int, deadline: float) -> None:
        """Wait until nobody else holds a lock, and take it."""
        pause = Event()
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise FileError(
                        f"another stream uses the checkpoint in {self.path}; close it, or give "
                        "each stream a folder of its own"
                    ) from None
                pause.wait(_LOOK_S)

    def newest(self) -> Record | None:
        """Return the record to go on from; None in a new folder.

        Raises
        ------
        FileError
            The record is damaged.
        """
        newest = NAMES.newest(self._files)
        return read_record(self.path, newest) if newest else None

    def require(self, record: Record, query: str, fingerprint: str, schema: str) -> None:
        """Refuse a record of another query, or of other columns.

        Raises
        ------
        FileError
        """
        if record.schema != schema:
            raise FileError(
                f"the checkpoint in {self.path} is of rows with {record.schema}, not with "
                f"{schema}; open the stream with the same columns, or give another folder"
            )
        if record.fingerprint != fingerprint:
            raise FileError(
                f"the checkpoint in {self.path} is of the query {record.query!r}, which computes "
                f"something else than {query!r}; give another folder"
            )

    def commit(self, record: Record) -> None:
        """Write a record, and remove older records and parts that it does not need.

        Raises
        ------
        FileError
        """
        write_record(self.path, record)
        self.tidy(record)

    def tidy(self, record: Record | None) -> None:
        """Remove older records, and parts that the given record does not name.

        A file that cannot be removed stays until the next time.
        """
        kept = set() if record is None else {part.name for part in record.parts}
        with suppress(FileError):
            names = set(self._files.names(""))
            unneeded = {n for n in names if n in self._parts or _RECORDS.has_unfinished(n)}
            for number in filter(None, map(NAMES.number, names)):
                if record is not None and number < record.number:
                    with suppress(FileError):  # another program's, or damaged
                        parts = read_record(self.path, number).parts
                        unneeded |= {NAMES.name(number), *(part.name for part in parts)}
            self._files.discard((unneeded & names) - kept)

    def close(self) -> None:
        """Release the lock; workers that still run keep theirs."""
        if self.lock >= 0:
            os.close(self.lock)
            self.lock = -1


def shared(path: Path) -> int:
    """Lock a folder for a rank; returns a descriptor, which holds the lock until it is closed.

    For ranks that write parts into a folder which rank 0 has locked.

    Raises
    ------
    FileError
    """
    file = _opened(path, _SHARED)
    fcntl.flock(file, fcntl.LOCK_SH)
    return file


def folder_id(path: Path) -> str:
    """Return the id in the names of a folder's parts; empty if it has none yet.

    Raises
    ------
    FileError
        The file in the place of the lock is not ours.
    OSError
    """
    content = (path / _LOCK).read_bytes()
    if content and not re.fullmatch(UUID.encode(), content):
        raise _foreign(path, _LOCK)
    return content.decode()


def _foreign(path: Path, name: str) -> FileError:
    return FileError(
        f"cannot keep checkpoints in {path}: its file {name} is another program's; give a folder "
        "without one"
    )


def _opened(path: Path, name: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    with explained(str(path / name), AGAIN):
        try:
            return os.open(path / name, flags, 0o600)
        except OSError as cause:
            if cause.errno in (errno.ELOOP, errno.EISDIR):  # a link, a folder
                raise _foreign(path, name) from cause
            raise
