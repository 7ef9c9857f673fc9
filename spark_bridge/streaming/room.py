"""Full disks and checkpoints that do not fit: Spark's errors become errors that say what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException, StreamingQueryException

from penstock.errors import FileError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

#: Errors that calls of Spark raise, be it classic or Spark Connect.
SPARK_ERRORS = (PySparkException, Py4JError)

#: Texts of the system's errors when a disk is full, which Java and Python repeat.
_FULL = ("No space left on device", "Disk quota exceeded", "File too large")


#: Texts of Spark's errors about a checkpoint that it cannot read, or not for these sources. It
#: reads what its sources have noted while it is initializing.
_UNFIT = (
    "Current State: INITIALIZING",
    "sources in the checkpoint offsets",
    "Wrong basePath",
    "StreamMetadata",
    "STREAMING_CHECKPOINT_",
)


class QueryFileError(FileError, StreamingQueryException):
    """A streaming query ended because of a full disk, or a checkpoint that is not its own."""

    def __init__(self, message: str) -> None:
        FileError.__init__(self, message)
        StreamingQueryException.__init__(self, message)


@contextmanager
def room_for(target: str) -> Iterator[None]:
    """Raise an error that says what to do, where Spark fails because of the files that it writes.

    Parameters
    ----------
    target : str
        Folder or table that is being written, for the message.

    Raises
    ------
    FileError
    """
    try:
        yield
    except SPARK_ERRORS as error:
        message = _message(error, target)
        if message is None:
            raise
        raise FileError(message) from error


def started(start: Callable[[], StreamingQuery], checkpoint: str | None) -> StreamingQuery:
    """Start a query that raises :class:`QueryFileError` if Spark cannot use its checkpoint.

    If a task or the sink found a disk full, the text of the error has a ``FileError`` already.

    Parameters
    ----------
    start : callable
        Spark's own call that starts the query.
    checkpoint : str or None
        For the message; None if Spark chooses one.
    """
    target = "Spark's checkpoint" if checkpoint is None else f"Spark's checkpoint {checkpoint}"
    with room_for(target):
        query = start()
    kind = _explaining(type(query))
    explaining = object.__new__(kind)
    vars(explaining).update(vars(query), checkpoint=target)
    return explaining


@cache
def _explaining(kind: type[StreamingQuery]) -> Any:
    """Subclass of a session's own class of queries, classic or Connect, for :func:`started`."""

    class ExplainingQuery(kind):
        #: Spark's checkpoint, for messages.
        checkpoint: str

        def awaitTermination(self, timeout: int | None = None) -> bool | None:
            try:
                return super().awaitTermination(timeout)
            except StreamingQueryException as error:
                raise _explained(error, self.checkpoint) from error

        def processAllAvailable(self) -> None:
            try:
                super().processAllAvailable()
            except StreamingQueryException as error:
                raise _explained(error, self.checkpoint) from error

        def exception(self) -> StreamingQueryException | None:
            return _explained(super().exception(), self.checkpoint)

    return ExplainingQuery


def _explained(error: Any, target: str) -> Any:
    if not isinstance(error, StreamingQueryException) or "FileError" in str(error):
        return error
    message = _message(error, target)
    return error if message is None else QueryFileError(message)


def _message(error: Any, target: str) -> str | None:
    stack = getattr(error, "getStackTrace", None)
    text = f"{error}\n{(stack and stack()) or ''}"
    full = next((sign for sign in _FULL if sign in text), None)
    if full is not None:
        return (
            f"cannot write {target}: {full}; free or add space and start the query again: it goes "
            "on where it was"
        )
    if not any(sign in text for sign in _UNFIT):
        return None
    cause = first_cause(error).rstrip(".")
    return (
        f"Spark cannot start the query from {target}: {cause}. Give each table the source "
        "that it had when the checkpoint was begun, neither another one nor the other table's, or "
        "begin anew with another checkpointLocation"
    )


def first_cause(error: Exception) -> str:
    """Return the cause of an error of Spark, in one line."""
    lines = [line.strip() for line in str(error).splitlines()]
    _, of_query, cause = lines[0].partition("terminated with exception: ")
    if of_query:
        return cause.partition(" SQLSTATE: ")[0]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    # Py4J says first that a call has failed, and then why.
    causes = causes or [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    return [*lines[:1], *causes][-1]
