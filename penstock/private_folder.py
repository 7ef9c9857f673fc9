"""Folders that nobody but this user reads or writes: caches, locks.

Files in such a folder are trusted, machine code included. So the folder is checked each time,
through an open descriptor: a link, another owner or a mode that lets others write is an error.
Files are opened relative to that descriptor, so that nobody can replace the folder in between.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from platformdirs import user_cache_dir

from .errors import FileError

#: Name of a file that is being written, and of what it becomes.
_UNFINISHED = re.compile(r"\.(.+)\.[0-9a-f]{16}\.part")

_log = logging.getLogger("penstock.cache")

#: Permission bits of group and others.
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class PrivateFolder:
    """An open folder of this user alone.

    Its path is for messages, and for tools that take no descriptor.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def open(self, name: str, flags: int) -> int:
        """Open a file; with ``O_CREAT`` it is made with mode 600. Links are not followed."""
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self._descriptor)

    def place(self, name: str) -> str:
        """The path of a file, for functions without descriptors; valid while the folder is open."""
        opened = f"/proc/self/fd/{self._descriptor}"
        return f"{opened if os.path.isdir(opened) else self.path}/{name}"

    def read(self, name: str) -> bytes | None:
        """Read a file; None if there is none."""
        try:
            handle = self.open(name, os.O_RDONLY)
        except FileNotFoundError:
            return None
        with os.fdopen(handle, "rb") as file:
            return file.read()

    def write(self, name: str, content: bytes) -> None:
        """Write a file under another name and rename it, so that nobody reads half of it."""
        part = f".{name}.{secrets.token_hex(8)}.part"
        handle = self.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(part, name, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
        except BaseException:
            with suppress(OSError):
                os.unlink(part, dir_fd=self._descriptor)
            raise

    def used(self, name: str) -> None:
        """Mark a file as used now, so that :meth:`trim` keeps it for longer."""
        with suppress(OSError):
            os.utime(name, dir_fd=self._descriptor, follow_symlinks=False)

    def trim(self, most_bytes: int, pattern: re.Pattern[str]) -> None:
        """Remove the least recently used files of some names until these take no more than this.

        Parameters
        ----------
        most_bytes : int
        pattern : re.Pattern
            Of the whole names; files that are being written under such a name count, too.
        """
        files = []
        with os.scandir(self._descriptor) as entries:
            for entry in entries:
                unfinished = _UNFINISHED.fullmatch(entry.name)
                if not pattern.fullmatch(entry.name if unfinished is None else unfinished[1]):
                    continue
                with suppress(FileNotFoundError):  # another process trims, too
                    stats = entry.stat(follow_symlinks=False)
                    files.append((stats.st_mtime_ns, stats.st_size, entry.name))
        above = sum(size for _, size, _ in files) - most_bytes
        for _, size, name in sorted(files):
            if above <= 0:
                break
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self._descriptor)
            above -= size


@contextmanager
def private_folder(path: Path) -> Iterator[PrivateFolder]:
    """Open a folder with mode 700 that this user owns; it is made if it is missing.

    A folder of this user that others may only read is closed to them.

    Raises
    ------
    FileError
        It is a link, somebody else's, or others may write in it.
    OSError
        It cannot be made or opened.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    if path.is_symlink() or not path.is_dir():
        raise FileError(f"{path} is no folder but a link or a file; remove it: rm {path}")
    # A link that takes its place here is refused by the system, with an error of its own.
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _check(path, os.fstat(descriptor), descriptor)
        yield PrivateFolder(path, descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def private_folder_if_possible(path: Path) -> Iterator[PrivateFolder | None]:
    """Open a :func:`private_folder` for a cache: None where no folder can be made."""
    with ExitStack() as cleanup:
        try:
            folder = cleanup.enter_context(private_folder(path))
        except FileError:
            raise
        except OSError as cause:
            _log.info("nothing is kept in %s: %s", path, cause)
            folder = None
        yield folder


def cache_folder(name: str) -> Path:
    """Path of a folder in the user's cache, or in ``$PENSTOCK_CACHE_DIR``; it may be missing."""
    return Path(os.environ.get("PENSTOCK_CACHE_DIR") or user_cache_dir("penstock")) / name


def _check(path: Path, stats: os.stat_result, descriptor: int) -> None:
    user = os.geteuid()
    if stats.st_uid != user:
        raise FileError(
            f"the folder {path} belongs to user {stats.st_uid}, not to user {user} who runs this, "
            "so that what lies there cannot be trusted; remove it, or set PENSTOCK_CACHE_DIR "
            "(TMPDIR for locks) to a folder of your own"
        )
    mode = stat.S_IMODE(stats.st_mode)
    if mode & _OTHERS_WRITE:
        raise FileError(
            f"others may write in the folder {path} (mode {mode:03o}), so that what lies there "
            f"cannot be trusted; remove it: rm -r {path}"
        )
    if mode & _OTHERS:
        os.fchmod(descriptor, 0o700)
