"""The pages of this process, and the threads that send them the reports of joins."""

from __future__ import annotations

import ipaddress
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from html import escape
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote

from penstock.errors import (
    MissingToolError,
    PenstockError,
    ProcessError,
    UsageError,
    installing,
)

from ..execute.trace import Trace
from ..metrics.exporter import ReportCollector, Reports, values_by_query
from ..metrics.report import Report
from ..wire.address import LEAST_TOKEN
from .history import EVERY_S

_log = logging.getLogger("penstock.page")

#: Seconds in which the page's process must be up, and be gone.
_PATIENCE_S = 60.0
#: Spans of the trace that one message has at most.
_SPANS = 500

#: Pages of this process by address and port.
_servers: dict[tuple[str, int], _Server] = {}
_servers_lock = threading.Lock()


class _Server:
    """A process that serves a page."""

    def __init__(self, address: str, port: int, token: str | None) -> None:
        self.token = token
        self.names: list[str] = []
        self._lock = threading.Lock()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", f"{__package__}.server"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,  # Ctrl-C is for the caller
            )
        except OSError as cause:
            raise ProcessError(f"the page's process cannot be started: {cause.strerror}") from cause
        assert self._process.stdout is not None
        self.send({"address": address, "port": port, "token": token})
        answer = json.loads(self._process.stdout.readline() or "{}")
        self._process.stdout.close()
        if "port" not in answer:
            self.close()
            reason = answer.get("error", "its process ended by itself")
            raise UsageError(
                f"cannot serve the page on {address}:{port}: {reason}; choose another port, or 0 "
                "for a free one"
            )
        self.port: int = answer["port"]

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message; a page that has ended, killed by somebody, hears nothing."""
        text = json.dumps(message) + "\n"
        with self._lock, suppress(OSError, ValueError):
            assert self._process.stdin is not None
            self._process.stdin.write(text)
            self._process.stdin.flush()

    def close(self) -> None:
        """Let the process end: it tells open pages first. Nobody waits for it."""
        with self._lock, suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        threading.Thread(target=self._reap, daemon=True).start()

    def _reap(self) -> None:
        try:
            self._process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Page:
    """A page with a join on it, until the join has ended or the page is closed.

    Attributes
    ----------
    url : str
        For a browser; with the token, if the page has one.
    port : int
    """

    def __init__(
        self,
        server: _Server,
        key: tuple[str, int],
        name: str,
        look: Callable[[], Mapping[str, Mapping[str, Any]]],
        ended: Callable[[], bool],
        done: Callable[[], None],
    ) -> None:
        self._server, self._key, self._name = server, key, name
        self._look, self._ended, self._done = look, ended, done
        self.port = server.port
        host = f"[{key[0]}]" if ":" in key[0] else key[0]
        self._plain_url = f"http://{host}:{self.port}/"
        shown = "" if server.token is None else f"?token={quote(server.token)}"
        self.url = self._plain_url + shown
        self._closing = threading.Event()
        self._names: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="penstock-page", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<Page {self._plain_url}>"

    def _repr_html_(self) -> str:
        return f'<a href="{escape(self.url)}" target="_blank">{escape(self._plain_url)}</a>'

    def close(self) -> None:
        """Take the join off the page, which ends with its last join."""
        self._closing.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(_PATIENCE_S)

    def _run(self) -> None:
        try:
            is_over = False
            while not is_over:
                is_over = self._closing.wait(EVERY_S) if self._names else self._closing.is_set()
                is_over = is_over or self._ended()  # before the last look
                self._send_look()
        except (PenstockError, ReferenceError):  # a stream that failed, or was forgotten
            _log.debug("a join left its page", exc_info=True)
        finally:
            self._leave()

    def _send_look(self) -> None:
        joins = self._look()
        self._names |= set(joins)
        self._server.send({"at": time.time(), "joins": joins})

    def _leave(self) -> None:
        self._done()
        self._server.send({"at": time.time(), "joins": {}, "ended": sorted(self._names)})
        with _servers_lock:
            self._server.names.remove(self._name)
            if not self._server.names:
                _servers.pop(self._key, None)
                self._server.close()


def show_reports(
    reports: Reports,
    port: int = 0,
    address: str = "127.0.0.1",
    token: str | None = None,
    *,
    name: str | None = None,
    trace: Trace | None = None,
    ended: Callable[[], bool] = lambda: False,
) -> Page:
    """Show a join on a page of this process.

    Parameters
    ----------
    reports : callable
        As for :class:`..metrics.exporter.ReportCollector`.
    port : int
        0 takes the page that this process has at the address, or a free port.
    address : str
        Where to listen; any but this machine's loopback needs a token.
    token : str, optional
        What browsers must show.
    name : str, optional
        Of the join; by default the aliases of its sources.
    trace : Trace, optional
        Of its lanes. If it is off, it keeps the latest spans while the page is there.
    ended : callable
        Tells whether the join has ended, so that it leaves the page.

    Raises
    ------
    UsageError
        The port is taken or out of range, or the address needs a token.
    MissingToolError
        The extra ``page`` is not installed.
    """
    first = reports()
    aliases = ", ".join(first.arrived) if isinstance(first, Report) else "joins"

    def look() -> dict[str, dict[str, Any]]:
        report = reports()
        metrics = list(ReportCollector(lambda: report).collect())
        by_join = values_by_query(metrics)
        return {join or page_name: {"values": values} for join, values in by_join.items()}

    page_name = name or aliases
    return _open(page_name, look, port, address, token, ended, lambda: None)


def _open(
    name: str,
    look: Callable[[], Mapping[str, Mapping[str, Any]]],
    port: int,
    address: str,
    token: str | None,
    ended: Callable[[], bool],
    done: Callable[[], None],
) -> Page:
    if find_spec("bokeh") is None:
        raise MissingToolError(
            f"the page needs Bokeh, which is not installed; {installing('page')}"
        )
    _check(address, token)
    with _servers_lock:
        key = (address, port)
        if not port:
            key = next((k for k, s in _servers.items() if k[0] == address), key)
        server = _servers.get(key)
        if server is None:
            server = _Server(address, port, token)
            key = (address, server.port)
            _servers[key] = server
        elif token not in (None, server.token):
            raise UsageError(
                f"the page on {address}:{server.port} has another token; give the same for all of "
                "its joins, or choose another port"
            )
        server.names.append(name)
    return Page(server, key, name, look, ended, done)


def _check(address: str, token: str | None) -> None:
    """Refuse to show the page to everybody."""
    if token is not None and (len(token) < LEAST_TOKEN or not token.isprintable()):
        raise UsageError(
            f"the page's token has {len(token)} characters, and needs at least {LEAST_TOKEN}; make "
            "one with: openssl rand -hex 32"
        )
    if token is None and not _is_loopback(address):
        raise UsageError(
            f"{address} without a token would show the page to everybody on the network; give a "
            "token, or leave the address out and use ssh -L"
        )


def _is_loopback(address: str) -> bool:
    if address == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(address).is_loopback
    return False
