"""One connection to a PostgreSQL server, in a thread of its own, so that callers can give up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

import pyarrow as pa

from penstock.errors import MissingToolError, installing

_T = TypeVar("_T")
#: Seconds for a server to report its own timeout before the connection is given up.
_GRACE_S = 2.0


class Unanswered(Exception):
    """The server has said nothing for longer than its own timeout."""


class PostgresSession:
    """A connection.

    Parameters
    ----------
    uri : str
        Address in libpq's form.
    statement_s, connect_s : float
        Seconds of one statement, and of connecting.

    Raises
    ------
    MissingToolError
        The driver is not installed.
    Unanswered
    Exception
        Errors of the driver: ``adbc_driver_manager.Error``.
    """

    def __init__(self, uri: str, statement_s: float, connect_s: float) -> None:
        driver = _driver()
        self.limit_s = statement_s + min(statement_s, _GRACE_S)
        self._work: SimpleQueue[tuple[Callable[[Any], Any], Future] | None] = SimpleQueue()
        connecting: Future[None] = Future()
        # A daemon: a server that hangs must not keep the process from ending.
        args = (driver, uri, self._work, connecting)
        threading.Thread(target=_serve, args=args, name="penstock-postgres", daemon=True).start()
        self._wait(connecting, connect_s + _GRACE_S)
        milliseconds = max(1, round(statement_s * 1000))
        # A client that dies or forgets must not hold a snapshot for long either.
        idle = max(1000, 10 * milliseconds)
        self.do(f"SET statement_timeout = {milliseconds}")
        self.do(f"SET lock_timeout = {milliseconds}")
        self.do(f"SET idle_in_transaction_session_timeout = {min(idle, (1 << 31) - 1)}")

    def do(self, *statements: str) -> None:
        """Run statements without a result, one after the other."""
        self._call(lambda connection: _do(connection, statements))

    def later(self, *statements: str) -> None:
        """Run statements without waiting for them; later calls wait."""
        self._work.put((lambda connection: _do(connection, statements), Future()))

    def query(
        self, sql: str, parameters: pa.RecordBatch | None = None, *, by_copy: bool = True
    ) -> pa.Table:
        """The rows of a statement; by COPY if it has no parameters.

        Parameters
        ----------
        sql : str
        parameters : RecordBatch, optional
            One row, a column for each of ``$1``, ``$2``, ...
        by_copy : bool
            COPY takes SELECT, but not EXPLAIN.
        """
        return self._call(lambda connection: _query(connection, sql, parameters, by_copy))

    def close(self) -> None:
        """Close the connection; one that hangs is left to its thread."""
        self._work.put(None)

    def _call(self, work: Callable[[Any], _T]) -> _T:
        done: Future[_T] = Future()
        self._work.put((work, done))
        return self._wait(done, self.limit_s)

    def _wait(self, done: Future[_T], limit_s: float) -> _T:
        try:
            return done.result(limit_s)
        except TimeoutError:
            if done.done():
                raise
            self.close()
            raise Unanswered(f"no answer within {limit_s:g} s") from None


def _driver() -> Any:
    try:
        from adbc_driver_postgresql import dbapi
    except ImportError as error:
        raise MissingToolError(
            f"tables in PostgreSQL are read by adbc-driver-postgresql, which cannot be loaded "
            f"({error}); {installing('postgresql')}"
        ) from None
    return dbapi


def _serve(driver: Any, uri: str, work: SimpleQueue, connecting: Future) -> None:
    """Connect, and run queued calls until None comes."""
    try:
        connection = driver.connect(uri, autocommit=True)
    except BaseException as error:
        connecting.set_exception(error)
        return
    connecting.set_result(None)
    with connection:
        for one, done in iter(work.get, None):
            try:
                result = one(connection)
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(result)
            del one, done  # they may hold rows


def _do(connection: Any, statements: tuple[str, ...]) -> None:
    with connection.cursor() as cursor:
        for one in statements:
            cursor.execute(one)


def _query(connection: Any, sql: str, parameters: pa.RecordBatch | None, by_copy: bool) -> pa.Table:
    with connection.cursor() as cursor:
        if not by_copy:
            cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
        cursor.execute(sql, parameters=parameters)
        return cursor.fetch_arrow_table()
