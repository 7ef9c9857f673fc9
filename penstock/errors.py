"""Every error Penstock raises on purpose, and its one warning.

The root of errors is :class:`PenstockError`; each leaf also inherits the builtin a caller would
expect. A message says what is wrong, where, and what to do about it. Only the command line catches
the root, and prints the message as one line.
"""

from __future__ import annotations

import errno
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .words import many

if TYPE_CHECKING:
    import pyarrow as pa


class PenstockError(Exception):
    """Root of all errors raised on purpose. ``exit_code`` is what the command line exits with.

    Examples
    --------
    >>> try:
    ...     penstock.sql("SELECT taxi FROM orders o JOIN gps g ON o.t = g.t", tables)
    ... except penstock.PenstockError as error:
    ...     print(f"{type(error).__name__}, exit code {error.exit_code}: {str(error)[:32]}")
    QueryError, exit code 2: unknown column or parameter taxi
    """

    exit_code = 1

    def __str__(self) -> str:
        """Return the message; its middle is left out where it is long, as it may quote a query."""
        text = super().__str__()
        left_out = len(text) - 2 * _MOST_SHOWN
        if left_out <= 0:
            return text
        return f"{text[:_MOST_SHOWN]}... ({left_out:,} characters) ...{text[-_MOST_SHOWN:]}"


#: Characters of each end of a message that are shown.
_MOST_SHOWN = 2000


class QueryError(PenstockError, ValueError):
    """The SQL text cannot be compiled. The message ends with the place in the text."""

    exit_code = 2


class BeyondError(QueryError):
    """One join, or groups of one table, cannot do this; a query that is run in parts may.

    Every other :class:`QueryError` about a query says that it is wrong, whatever engine runs it.
    """


class LikelyMistakeError(BeyondError):
    """The query is likely wrong; if its parts do not run, either, this is the reason to tell."""


class SchemaError(PenstockError, ValueError):
    """A table lacks a column, or a column has a type that the query cannot use."""

    exit_code = 3


class DataError(PenstockError, ValueError):
    """A value breaks a promise made about it: off its grid, out of range, or out of order."""

    exit_code = 4


class DeviceError(PenstockError, RuntimeError):
    """A device is unknown, cannot run a program, or failed while running a task."""

    exit_code = 5


class VersionError(DeviceError):
    """The other side of a connection has another version of Penstock."""


class OverloadError(PenstockError, TimeoutError):
    """A memory budget or a device stayed full for longer than the caller waits."""

    exit_code = 8


class OutOfMemoryError(PenstockError, MemoryError):
    """The system gives this process no more memory."""

    exit_code = 10


class FileError(PenstockError, OSError):
    """A file or folder cannot be read or written."""

    exit_code = 6


class ServerError(FileError):
    """A server that stores rows cannot be reached, or refuses."""


class UsageError(PenstockError, ValueError):
    """An argument of a call or of the command line is not usable."""

    exit_code = 2


class MissingToolError(PenstockError, RuntimeError):
    """An optional package or program is not installed; the message says how to install it."""

    exit_code = 7


def installing(extra: str) -> str:
    """How to install one or more extras: from a checkout, since Penstock is on no index."""
    return f"run pip install '.[{extra}]' in your checkout of Penstock"


class ProcessError(PenstockError, RuntimeError):
    """A process that Penstock has started did not come up, or ended by itself."""

    exit_code = 9


class LostError(ProcessError):
    """A worker ended with rows that no checkpoint covers; the message says which were lost."""

    exit_code = 11


#: How a user raises limits of the system, or makes room.
_REMEDIES = {
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "let other programs of this machine close files (sysctl fs.file-max)",
    errno.EFBIG: "raise the limit of what a process may write to one file (ulimit -f)",
    errno.ENOSPC: "free or add space",
    errno.EDQUOT: "free or add space",
    errno.ENOMEM: "free memory",
}


def limit_remedy(cause: BaseException, otherwise: str) -> str:
    """Return how to raise the limit that a call of the system has met; else the other text."""
    number = cause.errno if isinstance(cause, OSError) else None
    return _REMEDIES.get(number or 0, otherwise)


@contextmanager
def memory_explained() -> Iterator[None]:
    """Turn errors about memory, open files or disk space into ones that say what to do.

    Raises
    ------
    OutOfMemoryError
    FileError
        A limit of the system other than memory is met.
    """
    try:
        yield
    except PenstockError:
        raise
    except OSError as cause:
        remedy = limit_remedy(cause, "")
        if not remedy:
            raise
        raise FileError(f"the system refuses to open or write a file: {cause}; {remedy}") from cause
    except (MemoryError, RuntimeError) as cause:
        # Python's only message if there is no memory for a thread's stack.
        if isinstance(cause, RuntimeError) and "can't start new thread" not in str(cause):
            raise
        why = f" ({str(cause).splitlines()[0]})" if str(cause) else ""
        raise OutOfMemoryError(
            f"there is not enough memory{why}; shorten the window, leave out columns, give the "
            "result in parts (a stream, or --out), or raise the limit of this process"
        ) from None


class UntakenRowsWarning(UserWarning):
    """Rows that a stream gave at its end were dropped."""


def warn_untaken(rows: pa.Table | None, *raised: object) -> None:
    """Warn of rows that the end of a ``with`` block drops, unless an error ends it."""
    if not any(raised) and rows is not None and rows.num_rows:
        warnings.warn(
            f"{many(rows.num_rows, 'row')} of a stream not taken: the end of its with block closed "
            "it, and drops what close() returns; end the block with rest = stream.close()",
            UntakenRowsWarning,
            stacklevel=3,
        )
