"""Files by name below one root: a folder, or S3 (or its protocol), Google or Azure storage.

Each file exists as a whole or not at all. In a folder it is written under another name and then
renamed. An object exists once its upload has ended, and cannot be renamed: so its writer should
choose a name that no other attempt uses, and pass that name on. Listings serve for cleaning up
only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
from pyarrow import fs

from penstock.errors import FileError, UsageError, limit_remedy

from . import exclusive_put
from .atomic import atomic
from .checksums import Buffer, RunningChecksum, checksum, sealed, unsealed
from .location import Location
from .own_names import OwnNames
from .ranged_files import FileRanges, ObjectRanges, RangeReader

#: Hadoop's names of stores, and pyarrow's.
_SCHEMES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "gcs": "gs", "abfs": "abfs",
            "abfss": "abfss"}  # fmt: skip

#: Bytes of which a checksum is computed at once.
_PIECE_BYTES = 1 << 20

#: Of a place where nothing is to be removed.
_NO_NAMES = OwnNames()


class WrittenFile(NamedTuple):
    """Size and checksum of a file."""

    bytes: int
    checksum: str


class Listed(NamedTuple):
    """A file of a store: its name, its size, and when it was written in Unix time."""

    name: str
    bytes: int
    changed: float


class Sink(Protocol):
    """A file that is being written from its beginning to its end."""

    def write(self, content: Any, /) -> Any: ...


class FileStore:
    """Files by name, the same for a driver and all its workers.

    Parameters
    ----------
    location : str
        A folder, or ``s3://bucket/path``, ``gs://``, ``abfs://``, with pyarrow's options after a
        question mark, such as ``?region=eu-west-1`` or
        ``?scheme=http&endpoint_override=127.0.0.1:9000``. Credentials are best left to the
        environment of the driver and the workers.
    lost, again : str
        Ends of error messages: what to do if a file is lost or damaged, or could not be written.
    own_names : OwnNames
        Names of files that may be removed; all other files stay.

    Attributes
    ----------
    root : str
        The location without credentials and options, for messages.

    Raises
    ------
    UsageError
        There is no such kind of store.
    """

    def __init__(
        self, location: str, *, lost: str, again: str, own_names: OwnNames = _NO_NAMES
    ) -> None:
        self._lost, self._again = lost, again
        self.own_names = own_names
        place = Location.parse(location)
        self._is_folder = place.path is not None
        if place.path is not None:
            self._fs, self._path = fs.LocalFileSystem(use_mmap=True), str(place.path.absolute())
            self.root = self._path
            return
        if "://" not in location:
            raise UsageError(
                f"{place.shown} was given with one slash, as a pathlib.Path has it; give it as text"
            )
        if place.scheme not in _SCHEMES:
            raise UsageError(
                f"{place.shown} is no path of a file system, and no store that Penstock can write: "
                "give a folder that the driver and all workers share, or s3://, gs:// or abfs:// "
                'as option("storeLocation", ...)'
            )
        try:
            kind = _SCHEMES[place.scheme]
            self._fs, path = fs.FileSystem.from_uri(kind + location[len(place.scheme) :])
        except (OSError, pa.ArrowException) as error:
            raise UsageError(f"{place.shown} cannot be opened: {error}") from error
        self._path, self.root = path.rstrip("/"), place.shown
        self._location, self._kind = location, kind

    @property
    def folder(self) -> Path | None:
        """The folder; None for a store of objects."""
        return Path(self._path) if self._is_folder else None

    def shown(self, name: str) -> str:
        """A file, for messages."""
        return f"{self.root}/{name}"

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}" if name else self._path

    def make(self, folders: Iterable[str]) -> None:
        """Make missing folders; names of objects need none.

        Raises
        ------
        FileError
        """
        try:
            for folder in folders if self._is_folder else ():
                self._fs.create_dir(self._at(folder))
        except OSError as error:
            where = "choose a location that the driver and all workers can write"
            remedy = limit_remedy(error, where)
            raise FileError(f"cannot make {self.root}: {error}; {remedy}") from error

    def put(self, name: str, *pieces: Buffer) -> WrittenFile:
        """Write a file; in a folder it survives a crash of the machine.

        Parameters
        ----------
        name : str
            A new name; only the driver replaces files.
        *pieces : bytes, or any object with the buffer protocol
            One behind the other.

        Raises
        ------
        FileError
        """
        sums, size = RunningChecksum(), 0
        with self.writing(name) as file:
            for piece in pieces:
                sums.add(piece)
                file.write(piece)
                size += memoryview(piece).nbytes
        return WrittenFile(size, sums.text)

    def put_new(self, name: str, content: bytes) -> bool:
        """Write a file unless there is one; of several writers at once, one succeeds.

        Returns
        -------
        bool
            False if there is a file of this name.

        Raises
        ------
        FileError
        MissingToolError
            The store is none of folders, and the package obstore is not installed.
        """
        if not self._is_folder:
            return self._put_new_object(name, content)
        with self._explained(name):
            try:
                with atomic(Path(self._at(name)), replace=False, durable=True) as partial:
                    partial.write_bytes(content)
            except FileExistsError:
                return False
        return True

    def _explained(self, name: str) -> AbstractContextManager[None]:
        """Explain errors of the system about a file that is being written."""
        also = "" if self._is_folder else "the bucket is there and "
        return explained(self.shown(name), self._again, also)

    def check_put_new(self) -> None:
        """Check that :meth:`put_new` can work, before the work that ends with it.

        Raises
        ------
        MissingToolError
        """
        if not self._is_folder:
            exclusive_put.require(self.root)

    def _put_new_object(self, name: str, content: bytes) -> bool:
        self.check_put_new()
        path = self._at(name).partition("/")[2]  # without the bucket
        with self._explained(name):
            return exclusive_put.put_if_absent(self._location, self._kind, path, content)

    @contextmanager
    def writing(self, name: str) -> Iterator[Sink]:
        """Write a large file piece by piece; it exists once the ``with`` block has succeeded.

        Raises
        ------
        FileError
        """
        with self._explained(name):
            if self._is_folder:
                with (
                    atomic(Path(self._at(name)), durable=True) as partial,
                    open(partial, "wb") as file,
                ):
                    yield file
                    file.flush()
            else:
                with self._fs.open_output_stream(self._at(name)) as file:
                    yield file

    def ranges(self, name: str) -> RangeReader:
        """Open a file to read ranges of it.

        Raises
        ------
        FileError
        """
        try:
            if self._is_folder:
                return FileRanges(self._at(name))
            return ObjectRanges(self._fs.open_input_file(self._at(name)))
        except FileNotFoundError as error:
            raise self._missing(name) from error
        except OSError as error:
            raise self._unreadable(name, error) from error

    def columns(self, name: str, wanted: str, columns: Iterable[str]) -> pa.Table:
        """Some columns of an Arrow file, read into memory of their own.

        Parameters
        ----------
        name : str
        wanted : str
            Checksum of the file, compared before anything else is read.
        columns : iterable of str

        Raises
        ------
        FileError
            It is gone, or is not what was written.
        """
        try:
            # Not mapped: what is mapped counts as memory of the process.
            source = pa.OSFile(self._at(name)) if self._is_folder else None
            with source or self._fs.open_input_file(self._at(name)) as file:
                self._require_checksum(name, _checksum_by_pieces(file), wanted)
                file.seek(0)
                schema = pa.ipc.open_file(file).schema
                numbers = [schema.get_field_index(column) for column in columns]
                options = pa.ipc.IpcReadOptions(included_fields=numbers, use_threads=False)
                return pa.ipc.open_file(file, options=options).read_all()
        except FileError:
            raise
        except FileNotFoundError as error:
            raise self._missing(name) from error
        except pa.ArrowInvalid as error:
            raise self._damaged(name, error) from error
        except OSError as error:
            raise self._unreadable(name, error) from error

    def get(self, name: str) -> bytes | None:
        """Content of a file; None if there is none.

        Raises
        ------
        FileError
        """
        content = self._read(name)
        return None if content is None else content.to_pybytes()

    def put_json(self, name: str, values: Mapping[str, Any]) -> None:
        """Write values as JSON, with a checksum of the values and of the file's name.

        Raises
        ------
        FileError
        """
        self.put(name, sealed(name, values).encode())

    def put_new_json(self, name: str, values: Mapping[str, Any]) -> bool:
        """Write values as :meth:`put_json`, unless there is such a file; see :meth:`put_new`.

        Raises
        ------
        FileError
        """
        return self.put_new(name, sealed(name, values).encode())

    def get_json(self, name: str) -> dict[str, Any] | None:
        """Values that were written under this name; None if there are none.

        Raises
        ------
        FileError
            They are damaged, or were written under another name.
        """
        content = self._read(name)
        try:
            return None if content is None else unsealed(name, content.to_pybytes())
        except ValueError as error:
            raise self._damaged(name, error) from error

    def table(self, name: str, wanted: str) -> pa.Table:
        """Rows of an Arrow file; parameters and errors as for :meth:`content`."""
        content = self.content(name, wanted)
        try:
            return pa.ipc.open_file(content).read_all()
        except pa.ArrowInvalid as error:
            raise self._damaged(name, error) from error

    def content(self, name: str, wanted: str) -> pa.Buffer:
        """Content of a file that must be there; in a folder, mapped into memory.

        Parameters
        ----------
        name : str
        wanted : str
            Checksum of the file, compared before anything else is read. In a folder, a process
            computes a file's checksum once, and again if the file changes.

        Raises
        ------
        FileError
            It is gone, or is not what was written.
        """
        content = self._read(name)
        if content is None:
            raise self._missing(name)
        actual = _folder_checksum(self._at(name)) if self._is_folder else checksum(content)
        self._require_checksum(name, actual, wanted)
        return content

    def _require_checksum(self, name: str, actual: str, wanted: str) -> None:
        if actual != wanted:
            raise FileError(
                f"{self.shown(name)} is not what was written: its checksum is {actual}, "
                f"not {wanted}; {self._lost}"
            )

    def _read(self, name: str) -> pa.Buffer | None:
        try:
            with self._fs.open_input_file(self._at(name)) as file:
                return file.read_buffer()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreadable(name, error) from error

    def _missing(self, name: str) -> FileError:
        return FileError(f"{self.shown(name)} is gone; {self._lost}")

    def _damaged(self, name: str, error: Exception) -> FileError:
        return FileError(f"{self.shown(name)} cannot be read: {error}; {self._lost}")

    def _unreadable(self, name: str, error: OSError) -> FileError:
        if self._is_folder:
            is_closed = isinstance(error, PermissionError)
            remedy = limit_remedy(error, "let this user read it" if is_closed else self._lost)
            return FileError(f"{self.shown(name)} cannot be read: {error}; {remedy}")
        return FileError(
            f"{self.shown(name)} cannot be read: {error}; see that the store answers and that the "
            f"driver and all workers may read and list it, and {self._again}"
        )

    def size(self, name: str) -> int | None:
        """Bytes of a file; None if there is none.

        Raises
        ------
        FileError
        """
        try:
            info = self._fs.get_file_info(self._at(name))
        except OSError as error:
            raise self._unreadable(name, error) from error
        return info.size if info.type is fs.FileType.File else None

    def require(self, name: str, size: int) -> None:
        """Check that a file is there and has this many bytes.

        Raises
        ------
        FileError
        """
        actual = self.size(name)
        if actual is None:
            raise self._missing(name)
        if actual != size:
            raise FileError(f"{self.shown(name)} has {actual:,} bytes, not {size:,}; {self._lost}")

    def stamp(self, name: str) -> tuple[int, ...] | None:
        """Identity of a file, changed if it is replaced; None if it is gone, or for objects."""
        try:
            status = os.stat(self._at(name)) if self._is_folder else None
        except OSError:
            return None
        return None if status is None else (status.st_dev, status.st_ino, status.st_mtime_ns)

    def names(self, folder: str) -> list[str]:
        """Names of files in a folder, without it; perhaps not of all.

        Raises
        ------
        FileError
        """
        try:
            if self._is_folder:  # pyarrow fails at names of other programs that are no UTF-8
                with suppress(FileNotFoundError), os.scandir(self._at(folder)) as entries:
                    return [entry.name for entry in entries if entry.is_file()]
                return []
            infos = self._fs.get_file_info(fs.FileSelector(self._at(folder), allow_not_found=True))
        except OSError as error:
            raise self._unreadable(folder, error) from error
        return [one.base_name for one in infos if one.type is fs.FileType.File]

    def listed(self, folder: str, *, deep: bool = False) -> list[Listed]:
        """Files in a folder, hidden ones included; perhaps not all.

        Parameters
        ----------
        folder : str
        deep : bool
            Whether files of folders within it are listed, too.

        Raises
        ------
        FileError
        """
        where = fs.FileSelector(self._at(folder), allow_not_found=True, recursive=deep)
        try:
            infos = self._fs.get_file_info(where)
        except OSError as error:
            raise self._unreadable(folder, error) from error
        start = len(self._at("")) + 1
        return [
            Listed(one.path[start:], one.size, (one.mtime_ns or 0) * 1e-9)
            for one in infos
            if one.type is fs.FileType.File
        ]

    def discard(self, names: Iterable[str]) -> None:
        """Remove files as :meth:`remove` does; a file that cannot be removed stays."""
        for name in names:
            with suppress(FileError):
                self.remove([name])

    def remove_unfinished(self, folder: str, before: float) -> None:
        """Remove files that were being written, before a moment of Unix time, by killed programs.

        They lie in a folder or in folders of it; of the whole store, ``""``, only those at its
        root.

        Raises
        ------
        FileError
        """
        files = self.listed(folder, deep=bool(folder))
        self.remove(
            file.name
            for file in files
            if self.own_names.has_unfinished(file.name) and file.changed < before
        )

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, where they are there and have names of :attr:`own_names`.

        Raises
        ------
        FileError
        """
        for name in names:
            if name not in self.own_names:
                continue
            try:
                self._fs.delete_file(self._at(name))
            except FileNotFoundError:
                continue  # a listing may show what is gone
            except OSError as error:
                raise FileError(
                    f"cannot remove {self.shown(name)}: {error}; see that the driver may delete "
                    f"it, and {self._again}"
                ) from error


@contextmanager
def explained(shown: str, again: str, also: str = "") -> Iterator[None]:
    """Turn errors of the system about a file that is being written into ones that say what to do.

    Parameters
    ----------
    shown : str
        The file.
    again : str
        What to do when the cause is removed.
    also : str
        What else to check.

    Raises
    ------
    FileError
    """
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        remedy = f"see that {also}the driver and all workers can write there"
        remedy = limit_remedy(error, remedy)
        why = error.strerror or error
        raise FileError(f"cannot write {shown}: {why}; {remedy} and {again}") from error


def _checksum_by_pieces(file: pa.NativeFile) -> str:
    sums = RunningChecksum()
    while piece := file.read(_PIECE_BYTES):
        sums.add(piece)
    return sums.text


def _folder_checksum(path: str) -> str:
    stat = os.stat(path)
    return _checksum_of(
        path, (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    )


@lru_cache(maxsize=1 << 14)
def _checksum_of(path: str, version: tuple[int, ...]) -> str:
    """Checksum of a file; computed once per process for each version of the file."""
    with pa.memory_map(path) as source:
        return checksum(source.read_buffer())
