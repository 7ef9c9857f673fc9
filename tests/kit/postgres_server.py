"""A PostgreSQL server of Debian's packages, which tests start, kill and start again."""

from __future__ import annotations

import os
import pwd
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

#: Seconds for the server to come up or to go.
_LIMIT_S = 60.0
#: How often initdb is tried: it starts servers of its own, which a busy machine may refuse.
_TRIES = 3


def programs() -> Path | None:
    """The folder with initdb and postgres; None if they are not installed."""
    found = shutil.which("postgres")
    if found is not None and shutil.which("initdb") is not None:
        return Path(found).parent
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return folders[-1].parent if folders else None


def _user() -> list[str]:
    """How a program runs as somebody else than root, whom PostgreSQL refuses."""
    if os.getuid():
        return []
    return ["setpriv", f"--reuid={_owner()}", f"--regid={_owner()}", "--clear-groups"]


def _owner() -> str:
    for name in ("postgres", "nobody"):
        try:
            return str(pwd.getpwnam(name).pw_uid)
        except KeyError:
            continue
    return "65534"


class PostgresServer:
    """A server in a folder of its own.

    Parameters
    ----------
    folder : Path
        Short, since a Unix socket lies in it.
    settings : str
        Of the server.
    """

    def __init__(self, folder: Path, *settings: str) -> None:
        found = programs()
        assert found is not None
        self._programs, self.folder, self._settings = found, folder, settings
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        os.chmod(folder, 0o755)
        if not os.getuid():
            os.chown(folder, int(_owner()), int(_owner()))
        self._data = self._made(folder)
        self._process: subprocess.Popen | None = None

    def _made(self, folder: Path) -> Path:
        """Make the files of a server; a machine on which initdb fails has no PostgreSQL to test."""
        said = ""
        for number in range(_TRIES):
            data = folder / f"data{number}"
            command = [*_user(), str(self._programs / "initdb"), "-D", str(data), "-A", "trust",
                       "-N", "-E", "UTF8", "--locale=C", "-U", "postgres"]  # fmt: skip
            done = subprocess.run(
                command, check=False, capture_output=True, text=True, timeout=_LIMIT_S, cwd="/"
            )
            if not done.returncode:
                return data
            said = done.stderr.strip()
        pytest.skip(f"PostgreSQL's initdb fails on this machine: {said}")

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = [
            "listen_addresses=127.0.0.1", f"port={self.port}", "fsync=off", "autovacuum=off",
            f"unix_socket_directories={self.folder}", "max_connections=40", "shared_buffers=32MB",
            *self._settings,
        ]  # fmt: skip
        options = [text for one in settings for text in ("-c", one)]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*_user(), str(self._programs / "postgres"), "-D", str(self._data), *options],
                stdout=log, stderr=log, cwd="/", start_new_session=True,
            )  # fmt: skip
        end = time.monotonic() + _LIMIT_S
        while True:
            try:
                self.run("SELECT 1")
                return
            except Exception:
                if time.monotonic() > end or self._process.poll() is not None:
                    raise
            time.sleep(0.02)  # between looks, until it answers

    def kill(self) -> None:
        """Kill the server and its backends, as a machine that loses its power."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)  # it starts no further backends
        ends = []
        for pid in self.backends():
            try:
                ends.append(os.pidfd_open(pid))
                signal.pidfd_send_signal(ends[-1], signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._process.kill()
        self._process.wait(_LIMIT_S)
        for end in ends:  # a server does not start while they hold the memory that they shared
            assert select.select([end], [], [], _LIMIT_S)[0]
            os.close(end)

    def backends(self) -> list[int]:
        """Process numbers of the server's children."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return [int(pid) for pid in children.read_text().split()]

    def clients(self) -> list[int]:
        """Process numbers of the backends that serve Penstock."""
        own = "SELECT pid::int8 FROM pg_stat_activity WHERE application_name = 'penstock'"
        return [pid for (pid,) in self.rows(own)]

    def end_backends(self) -> None:
        """End the connections of Penstock, and no others."""
        self.rows(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE application_name = 'penstock'"
        )

    def stop(self) -> None:
        """End it; at once."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(_LIMIT_S)

    def address(self, table: str, key: str | None = None, database: str = "postgres",
                user: str = "postgres", **options: object) -> str:  # fmt: skip
        """The address of a table, as users give it."""
        given = {"table": table, **({} if key is None else {"key": key}), **options}
        query = "&".join(f"{name}={value}" for name, value in given.items())
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}?{query}"

    def run(self, *statements: str, database: str = "postgres", user: str = "postgres") -> None:
        """Run statements."""
        from adbc_driver_postgresql import dbapi

        uri = f"postgresql://{user}@127.0.0.1:{self.port}/{database}?connect_timeout=5"
        with dbapi.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
            for one in statements:
                cursor.execute(one)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of a statement."""
        from adbc_driver_postgresql import dbapi

        uri = f"postgresql://postgres@127.0.0.1:{self.port}/postgres?connect_timeout=5"
        with dbapi.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall()

    def load(self, table: str, rows: pa.Table, *, create: bool = False) -> None:
        """Put rows into a table."""
        from adbc_driver_postgresql import dbapi

        uri = f"postgresql://postgres@127.0.0.1:{self.port}/postgres?connect_timeout=5"
        with dbapi.connect(uri) as connection, connection.cursor() as cursor:
            cursor.adbc_ingest(table, rows, mode="create" if create else "append")
            connection.commit()


@contextmanager
def served_postgres(*settings: str) -> Iterator[PostgresServer]:
    """A server while it is needed; the test is skipped where it is not installed."""
    if programs() is None:
        pytest.skip("PostgreSQL is not installed (Debian: apt install postgresql)")
    pytest.importorskip("adbc_driver_postgresql", reason='pip install "penstock[postgresql]"')
    with tempfile.TemporaryDirectory(prefix="penstock-pg-", ignore_cleanup_errors=True) as folder:
        server = PostgresServer(Path(folder), *settings)
        try:
            server.start()
            yield server
        finally:
            server.stop()
