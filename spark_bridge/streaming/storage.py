"""Where the files of a streaming join lie: a folder that all workers share, or an object store.

Both keep files under names, each of them whole or not there. Whoever writes one tells its name:
what a listing shows is only ever cleaned up.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import urlparse
from urllib.request import url2pathname

import pyarrow as pa

from penstock.errors import FileError
from penstock.spark_bridge.durable import write_whole
from penstock.spark_bridge.streaming.checksums import SummedFile, checksum

#: What can be done where state is gone.
LOST = (
    "restore the folder from a backup together with Spark's checkpoint around it, or begin anew "
    "with another checkpointLocation"
)


class Written(NamedTuple):
    """What a file has in it."""

    bytes: int
    checksum: str


class Storage(ABC):
    """Files by name, below one root; the same on the driver and on all workers.

    Attributes
    ----------
    root : str
        For messages.
    has_manifests : bool
        Whether a task writes down what it has written, rather than to say so to the driver.
    """

    root: str
    has_manifests: bool

    def shown(self, name: str) -> str:
        """A file, for messages."""
        return f"{self.root}/{name}"

    @abstractmethod
    def make(self, folders: Iterable[str]) -> None:
        """Make folders, if they are not there.

        Raises
        ------
        FileError
        """

    @abstractmethod
    def put(self, name: str, write: Callable[[Any], None]) -> Written:
        """Write a file as a whole, or not at all.

        Parameters
        ----------
        name : str
            New, but for files that are replaced, which only the driver does.
        write : callable
            Writes the content into a binary file.

        Raises
        ------
        FileError
        """

    @abstractmethod
    def get(self, name: str) -> bytes | None:
        """Content of a file; None if there is none.

        Raises
        ------
        FileError
        """

    @abstractmethod
    def rows(self, name: str, wanted: str) -> pa.Table:
        """Rows of an Arrow file.

        Parameters
        ----------
        name : str
        wanted : str
            Checksum of the file, which is compared before anything else of it is looked at.

        Raises
        ------
        FileError
            It is gone, or is not what was written.
        """

    @abstractmethod
    def size(self, name: str) -> int | None:
        """Bytes of a file; None if there is none.

        Raises
        ------
        FileError
        """

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """Names of files in a folder, without it; perhaps not of all."""

    @abstractmethod
    def remove(self, names: Iterable[str]) -> None:
        """Remove files, where they are there."""

    def _require(self, name: str, found: str, wanted: str) -> None:
        if found != wanted:
            raise FileError(
                f"{self.shown(name)} is not what was written: its checksum is {found}, not "
                f"{wanted}; {LOST}"
            )


class FolderStorage(Storage):
    """A folder of a POSIX file system.

    Parameters
    ----------
    path : Path
    """

    has_manifests = False

    def __init__(self, path: Path) -> None:
        self._path, self.root = path, str(path)

    def make(self, folders: Iterable[str]) -> None:
        try:
            for folder in folders:
                (self._path / folder).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(
                f"cannot make {self.root}: {error.strerror}; choose a checkpointLocation that the "
                "driver and all workers can write"
            ) from error

    def put(self, name: str, write: Callable[[Any], None]) -> Written:
        summed: list[SummedFile] = []

        def write_summed(file: BinaryIO) -> None:
            summed.append(SummedFile(file))
            write(summed[-1])

        write_whole(self._path / name, write_summed)
        return Written(summed[-1].bytes, summed[-1].checksum)

    def get(self, name: str) -> bytes | None:
        try:
            return (self._path / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise FileError(f"{self.shown(name)} cannot be read: {error}; {LOST}") from error

    def rows(self, name: str, wanted: str) -> pa.Table:
        """The rows, mapped into memory; a process sums a file once, and again if it changes."""
        path = self.shown(name)
        try:
            stat = os.stat(path)
            version = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
            self._require(name, _checksum_of(path, version), wanted)
            with pa.memory_map(path) as source:
                return pa.ipc.open_file(source).read_all()
        except FileError:
            raise
        except (OSError, pa.ArrowInvalid) as error:
            raise FileError(f"{path} cannot be read: {error}; {LOST}") from error

    def size(self, name: str) -> int | None:
        try:
            return (self._path / name).stat().st_size
        except FileNotFoundError:
            return None
        except OSError as error:
            raise FileError(f"{self.shown(name)} cannot be read: {error}; {LOST}") from error

    def names(self, folder: str) -> list[str]:
        path = self._path / folder
        return [one.name for one in path.iterdir()] if path.is_dir() else []

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            (self._path / name).unlink(missing_ok=True)


@lru_cache(maxsize=1 << 14)
def _checksum_of(path: str, version: tuple[int, ...]) -> str:
    """Of a file; one call per process for each version of a file that it reads."""
    with pa.memory_map(path) as source:
        return checksum(source.read_buffer())


@lru_cache(maxsize=16)
def storage_of(location: str) -> Storage:
    """What lies at a path or URI; one object per process.

    Raises
    ------
    UsageError
        There is no such kind of store.
    """
    parsed = urlparse(location)
    if parsed.scheme in ("", "file"):
        path = Path(url2pathname(parsed.path) if parsed.scheme else location)
        return FolderStorage(path.absolute())
    from penstock.spark_bridge.streaming.objects import ObjectStorage

    return ObjectStorage(location)
