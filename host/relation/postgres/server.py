"""A PostgreSQL server: snapshots of a table, tried again where the connection is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa

from penstock.errors import DataError, FileError, PenstockError, SchemaError, ServerError

from .connection import PostgresSession, Unanswered
from .location import PostgresLocation

_T = TypeVar("_T")
#: Seconds before a try again, at first and at most; each pause is twice the one before.
_PAUSE_S, _MOST_PAUSE_S = 0.05, 1.0
#: States of SQL that say that the server goes or comes, or has no room at the moment.
_LOST = ("08", "57P", "53300", "40001", "40P01", "25P03")
#: Words of such states in the messages of refused connections, which have no state.
_COMES_BACK = (
    "the database system is",
    "terminating connection",
    "too many clients",
    "remaining connection slots",
)
_TIMEOUTS = ("57014", "55P03")
_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class _Lost(Exception):
    """The connection is gone, or cannot be made now."""


class ChangedTable(SchemaError):
    """The table has changed: a name or type of a statement does not fit it."""


class PostgresServer:
    """A server, to which there is one connection at most.

    Parameters
    ----------
    location : PostgresLocation
    """

    def __init__(self, location: PostgresLocation) -> None:
        self.location = location
        self._session: PostgresSession | None = None
        self._snapshot: TableSnapshot | None = None
        self._lock = threading.RLock()

    def query(
        self, sql: str, parameters: pa.RecordBatch | None = None, *, by_copy: bool = True
    ) -> pa.Table:
        """The rows of a statement outside of a snapshot; not tried again.

        Raises
        ------
        ServerError, SchemaError, FileError, MissingToolError
        """
        with self._lock:
            try:
                return self._answered(lambda: self._open().query(sql, parameters, by_copy=by_copy))
            except _Lost as error:
                raise self._unreachable(error, 0.0) from None

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._drop()

    def _open(self) -> PostgresSession:
        if self._session is None:
            where = self.location
            self._session = PostgresSession(where.uri, where.statement_s, where.connect_s)
        return self._session

    def _drop(self) -> None:
        """Close the connection, and with it the transaction."""
        session, self._session = self._session, None
        if session is not None:
            session.close()
        self._snapshot = None

    def _answered(self, ask: Callable[[], _T]) -> _T:
        """Run a call on the server; its errors become Penstock's.

        Raises
        ------
        _Lost, ServerError, SchemaError, DataError, FileError
        """
        try:
            return ask()
        except Unanswered as error:
            self._drop()
            raise _Lost(str(error)) from None
        except Exception as error:
            state = getattr(error, "sqlstate", None)
            if state is None and not hasattr(error, "status_code"):
                raise
            text = self.location.hidden(_first_lines(str(error)))
            if state is None and self._session is not None and self._is_alive():
                raise FileError(
                    f"{self.location.name} sends rows that the driver cannot read: {text}; CAST "
                    "the column in a view, and name that"
                ) from None
            was_open = self._session is not None
            if state is None or state.startswith(_LOST):
                self._drop()
                if not was_open and _is_final(text):
                    raise ServerError(
                        f"{self.location.name} cannot be opened: {text}; mend the address, the "
                        "password, or the server's pg_hba.conf"
                    ) from None
                raise _Lost(text) from None
            raise self._refused(state, text) from None

    def _is_alive(self) -> bool:
        """Whether the connection works still; in a transaction that failed it says no more."""
        assert self._session is not None
        try:
            self._session.query("SELECT 1")
        except Unanswered:
            return False
        except Exception as error:
            return getattr(error, "sqlstate", None) == "25P02"
        return True

    def _refused(self, state: str, text: str) -> PenstockError:
        where = self.location
        if state in _TIMEOUTS:
            return ServerError(
                f"{where.name} took longer than statement_timeout={where.statement_s:g}s: {text}; "
                "an index on the columns of the key makes it fast, and statement_timeout= in the "
                "address gives it longer"
            )
        if state == "42501":
            return ServerError(
                f"{where.name} may not be read: {text}; GRANT SELECT ON {where.table} (and USAGE "
                "ON its schema) TO this user"
            )
        if state in ("42P01", "42703", "42883", "42804", "3F000"):
            return ChangedTable(f"{where.name}: {text}")
        if state.startswith("22"):
            return DataError(
                f"{where.name} holds a value that cannot be read: {text}; mend it, or leave such "
                "rows out in a view"
            )
        return ServerError(f"{where.name} refuses: {text} (SQLSTATE {state})")

    def _unreachable(self, error: Exception, tried_s: float) -> ServerError:
        again = f" for {tried_s:.0f} s" if tried_s >= 1 else ""
        return ServerError(
            f"{self.location.name} cannot be reached{again}: {error}; start the server, or mend "
            "the address. Rows that wait are answered once it can be reached again (push or flush)"
        )


class TableSnapshot:
    """One state of the tables of a server: a transaction, which begins with the first statement.

    If the connection is lost, statements go on in a newer state.

    Parameters
    ----------
    server : PostgresServer
    first : sequence of str
        Statements that come before the snapshot is taken: locks.

    Attributes
    ----------
    begun : bool
        Whether it was ever begun.
    since : float
        When the state that is read was begun; seconds of the monotonic clock.
    losses : int
        How often the state was lost and a newer one took its place.
    """

    def __init__(self, server: PostgresServer, *first: str) -> None:
        self._server, self._first = server, first
        self.begun = False
        self.since = 0.0
        self.losses = 0

    def query(self, sql: str, parameters: pa.RecordBatch | None = None) -> pa.Table:
        """The rows of a statement in this state.

        Raises
        ------
        ServerError
            The server cannot be reached, or refuses.
        SchemaError
            The table lacks a column that the statement names.
        """
        server, began, pause_s = self._server, time.monotonic(), _PAUSE_S
        while True:
            try:
                with server._lock:
                    return server._answered(lambda: self._query(sql, parameters))
            except _Lost as error:
                tried_s = time.monotonic() - began
                if tried_s + pause_s > server.location.retry_s:
                    raise server._unreachable(error, tried_s) from None
            except Exception:
                self.end()
                raise
            threading.Event().wait(pause_s)
            pause_s = min(2 * pause_s, _MOST_PAUSE_S)

    def end(self) -> None:
        """End the transaction; a later statement begins another one, of a newer state."""
        server = self._server
        with server._lock:
            if server._snapshot is self and server._session is not None:
                server._session.later("ROLLBACK")
                server._snapshot = None

    def _query(self, sql: str, parameters: pa.RecordBatch | None) -> pa.Table:
        server = self._server
        session = server._open()
        if server._snapshot is not self:
            if server._snapshot is not None:
                server._snapshot.end()
            if self.begun:
                self.losses += 1
            server._snapshot, self.since, self.begun = self, time.monotonic(), True
            session.do(_BEGIN, *self._first)
        return session.query(sql, parameters)


def _is_final(text: str) -> bool:
    """Whether a connection was refused for a reason that does not go away by itself."""
    is_refused = "Failed to connect" in text and "FATAL:" in text
    return is_refused and not any(words in text for words in _COMES_BACK)


def _first_lines(text: str) -> str:
    """A driver's message, without the statement and on one line."""
    kept = []
    for line in text.splitlines():
        if line.startswith(("LINE ", "Query was:")):
            break
        kept.append(line.strip())
    return " ".join(one for one in kept if one and set(one) != {"^"})
