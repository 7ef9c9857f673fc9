"""Full disks: Spark's errors become errors that say what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, StreamingQueryException

from penstock.errors import FileError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

#: What calls of Spark raise, be it classic or Spark Connect.
SPARK_ERRORS = (PySparkException, Py4JError)

#: Texts of the system's errors when a disk is full, which Java and Python repeat.
_FULL = ("No space left on device", "Disk quota exceeded", "File too large")


class QueryFileError(FileError, StreamingQueryException):
    """A streaming query ended because a file could not be written."""

    def __init__(self, message: str) -> None:
        FileError.__init__(self, message)
        StreamingQueryException.__init__(self, message)


@contextmanager
def room_for(what: str) -> Iterator[None]:
    """Raise an error that says what to do, where Spark fails because a disk is full.

    Parameters
    ----------
    what : str
        What is being written, for the message.

    Raises
    ------
    FileError
    """
    try:
        yield
    except SPARK_ERRORS as error:
        message = _message(error, what)
        if message is None:
            raise
        raise FileError(message) from error


def with_remedy(query: StreamingQuery, checkpoint: str) -> StreamingQuery:
    """Make a query raise :class:`QueryFileError` if Spark itself found the disk full.

    If a task or the sink found it full, the text of the error has a ``FileError`` already.

    Parameters
    ----------
    query : StreamingQuery
        Changed in place.
    checkpoint : str
        For the message.
    """
    kind = type(query)  # classic or Spark Connect's

    def said(error: Any) -> Any:
        if not isinstance(error, StreamingQueryException) or "FileError" in str(error):
            return error
        message = _message(error, checkpoint)
        return error if message is None else QueryFileError(message)

    class Remedied(kind):
        def awaitTermination(self, timeout: int | None = None) -> bool | None:
            try:
                return super().awaitTermination(timeout)
            except StreamingQueryException as error:
                raise said(error) from error

        def processAllAvailable(self) -> None:
            try:
                super().processAllAvailable()
            except StreamingQueryException as error:
                raise said(error) from error

        def exception(self) -> StreamingQueryException | None:
            return said(super().exception())

    query.__class__ = Remedied
    return query


def _message(error: Any, what: str) -> str | None:
    stack = getattr(error, "getStackTrace", None)
    text = f"{error}\n{(stack and stack()) or ''}"
    full = next((sign for sign in _FULL if sign in text), None)
    return full and (
        f"cannot write {what}: {full}; free or add space and start the query again: it goes on "
        "where it was"
    )
