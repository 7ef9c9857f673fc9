"""Files of a streaming join as objects, in S3 and what speaks its protocol, Google's, Azure's.

An object is there as a whole once its upload has ended, and cannot be renamed. So nothing is: every
object but one has a name of its own, which no other attempt of a task or driver ever uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urlparse

import pyarrow as pa
from pyarrow import fs

from penstock.errors import FileError, UsageError
from penstock.spark_bridge.streaming.checksums import checksum
from penstock.spark_bridge.streaming.storage import LOST, Storage, Written

#: What Hadoop calls stores, and pyarrow does.
_SCHEMES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "gcs": "gs", "abfs": "abfs",
            "abfss": "abfss"}  # fmt: skip


class ObjectStorage(Storage):
    """Objects whose names have a common beginning.

    Parameters
    ----------
    uri : str
        ``s3://bucket/path``, ``gs://``, ``abfs://``, with pyarrow's options after a question mark,
        such as ``?region=eu-west-1`` or ``?scheme=http&endpoint_override=127.0.0.1:9000``.
        Credentials are best left to the environment of the driver and the workers.

    Raises
    ------
    UsageError
        There is no such kind of store.
    """

    has_manifests = True

    def __init__(self, uri: str) -> None:
        parsed = urlparse(uri)
        # Without user, password and options: this is shown in messages.
        shown = f"{parsed.scheme}://{parsed.netloc.rpartition('@')[2]}{parsed.path}".rstrip("/")
        if parsed.scheme not in _SCHEMES:
            raise UsageError(
                f"{shown} is no path of a file system, and no store that Penstock can write: give "
                "a folder that the driver and all workers share, or s3://, gs:// or abfs:// as "
                'option("storeLocation", ...)'
            )
        try:
            self._fs, path = fs.FileSystem.from_uri(
                _SCHEMES[parsed.scheme] + uri.removeprefix(parsed.scheme)
            )
        except (OSError, pa.ArrowException) as error:
            raise UsageError(f"{shown} cannot be opened: {error}") from error
        self._path, self.root = path.rstrip("/"), shown

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}"

    def make(self, folders: Iterable[str]) -> None:
        """Nothing: names with slashes need no folders."""

    def put(self, name: str, write: Callable[[Any], None]) -> Written:
        # First in memory: what fails half-way must not end as a whole object.
        buffer = pa.BufferOutputStream()
        write(buffer)
        content = buffer.getvalue()
        try:
            with self._fs.open_output_stream(self._at(name)) as file:
                file.write(content)
        except OSError as error:
            raise FileError(
                f"cannot write {self.shown(name)}: {error}; see that the bucket is there and the "
                "driver and all workers can write there, and start the query again: it goes on "
                "where it was"
            ) from error
        return Written(content.size, checksum(content))

    def get(self, name: str) -> bytes | None:
        found = self._read(name)
        return None if found is None else found.to_pybytes()

    def rows(self, name: str, wanted: str) -> pa.Table:
        content = self._read(name)
        if content is None:
            raise FileError(f"{self.shown(name)} is gone; {LOST}")
        self._require(name, checksum(content), wanted)
        try:
            return pa.ipc.open_file(content).read_all()
        except pa.ArrowInvalid as error:
            raise FileError(f"{self.shown(name)} cannot be read: {error}; {LOST}") from error

    def _read(self, name: str) -> pa.Buffer | None:
        try:
            with self._fs.open_input_file(self._at(name)) as file:
                return file.read_buffer()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreadable(name, error) from error

    def size(self, name: str) -> int | None:
        try:
            found = self._fs.get_file_info(self._at(name))
        except OSError as error:
            raise self._unreadable(name, error) from error
        return found.size if found.type is fs.FileType.File else None

    def names(self, folder: str) -> list[str]:
        where = fs.FileSelector(self._at(folder), allow_not_found=True)
        try:
            found = self._fs.get_file_info(where)
        except OSError as error:
            raise self._unreadable(folder, error) from error
        return [one.base_name for one in found if one.type is fs.FileType.File]

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            try:
                self._fs.delete_file(self._at(name))
            except FileNotFoundError:
                continue  # a listing may show what is gone
            except OSError as error:
                raise FileError(
                    f"cannot remove {self.shown(name)}: {error}; see that the driver may delete "
                    "objects, and start the query again: it goes on where it was"
                ) from error

    def _unreadable(self, name: str, error: OSError) -> FileError:
        return FileError(
            f"{self.shown(name)} cannot be read: {error}; see that the store answers and that the "
            "driver and all workers may read and list it, and start the query again"
        )
