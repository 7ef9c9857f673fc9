"""The pages of this process, and the threads that tell them of joins."""

from __future__ import annotations

import json
import logging
import os
import selectors
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from html import escape
from importlib.util import find_spec
from ipaddress import ip_address
from typing import IO, Any
from urllib.parse import quote

from prometheus_client.registry import Collector

from penstock.errors import MissingToolError, PenstockError, UsageError, installing

from ..execute.trace import Trace
from ..metrics.exporter import PREFIX, ReportCollector, Reports, values_by_query
from ..metrics.findings import of_report
from ..metrics.report import Report
from ..wire.address import LEAST_TOKEN
from .history import EVERY_S, MINUTE, SPANS

_log = logging.getLogger("penstock.page")

#: Seconds in which the page's process must begin, and a page must leave it.
_PATIENCE_S = 60.0
#: Seconds in which the page's process must take a message; one that hangs is ended.
_HANGS_S = 10.0

#: Figures of joins, by name, or "" for the only one, as :mod:`.server` takes them.
Look = Callable[[], dict[str, dict[str, Any]]]


class _Server:
    """A process that serves a page. Drawing here would take time from joins."""

    def __init__(self, address: str, port: int, token: str | None) -> None:
        self.address, self.token = address, token
        #: Names of what it shows.
        self.names: list[str] = []
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", f"{__package__}.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # Ctrl-C is for the caller
        )
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        self.send({"address": address, "port": port, "token": token})
        answer = self._answer()
        if "port" not in answer:
            self.close()
            why = answer.get("error", "its process ended by itself, or hangs")
            raise UsageError(
                f"cannot serve the page on {address}:{port}: {why}; choose another port, or 0 for "
                "a free one"
            )
        self.port: int = answer["port"]

    def _answer(self) -> dict[str, Any]:
        """Wait for the first answer; empty if the process ends, or gives none in time."""
        assert self._process.stdout is not None
        end, line = time.monotonic() + _PATIENCE_S, b""
        with self._process.stdout as answers:
            while not line.endswith(b"\n"):
                if not _is_ready(answers, selectors.EVENT_READ, end) or not (
                    some := answers.read(4096)
                ):
                    self._process.kill()
                    return {}
                line += some
        return json.loads(line)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message; a process that somebody has ended hears nothing."""
        left = memoryview(json.dumps(message).encode() + b"\n")
        with self._lock, suppress(OSError, ValueError):
            pipe, end = self._process.stdin, time.monotonic() + _HANGS_S
            assert pipe is not None
            while left:
                if not _is_ready(pipe, selectors.EVENT_WRITE, end):
                    _log.warning("the page took no message for %s s, and is closed", _HANGS_S)
                    self._process.kill()
                    return
                left = left[pipe.write(left) or 0 :]

    def close(self) -> None:
        """Let the process end once browsers know; nobody waits for it."""
        self.send({})  # a fork of this process may keep the pipe open
        with self._lock, suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        threading.Thread(target=self._process.wait, daemon=True).start()


def _is_ready(pipe: IO[bytes], event: int, end: float) -> bool:
    """Wait until a pipe can be read or written, or until a moment; return whether it can."""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, event)
        return bool(selector.select(max(0.0, end - time.monotonic())))


#: Processes that serve pages now.
_servers: list[_Server] = []
_servers_lock = threading.Lock()


def _forget() -> None:
    """Leave pages to the process that has forked this one."""
    global _servers_lock  # whoever held it is not here
    _servers_lock = threading.Lock()
    _servers.clear()


os.register_at_fork(after_in_child=_forget)


class Page:
    """A join, or joins, on a page, until they have ended or this is closed.

    Attributes
    ----------
    url : str
        For a browser; with the token, if the page has one.
    place : str
        The same without the token.
    port : int
    """

    def __init__(
        self,
        name: str,
        look: Look,
        port: int,
        address: str,
        token: str | None,
        ended: Callable[[], bool] = lambda: False,
        trace: Trace | None = None,
    ) -> None:
        self._look, self._ended, self._trace = look, ended, trace or Trace()
        with _servers_lock:
            self._server = _server_at(port, address, token)
            names = (f"{name} ({k})" if k else name for k in range(len(self._server.names) + 1))
            self._name = next(one for one in names if one not in self._server.names)
            self._server.names.append(self._name)
        self.port = self._server.port
        host = f"[{address}]" if ":" in address else address
        self.place = f"http://{host}:{self.port}/"
        shown = self._server.token
        self.url = self.place if shown is None else f"{self.place}?token={quote(shown)}"
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-page", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<Page {self.place}>"

    def _repr_html_(self) -> str:
        return f'<a href="{escape(self.url)}" target="_blank">{escape(self.place)}</a>'

    def close(self) -> None:
        """Take the join off the page, which ends with its last join."""
        self._closing.set()
        self._thread.join(_PATIENCE_S)

    def _run(self) -> None:
        joins: dict[str, Any] = {}
        try:
            is_over, pause = False, 0.0
            while not is_over:
                is_over = self._closing.wait(pause) or self._ended() or not self._server.is_alive
                pause = EVERY_S
                # If it is over, this look is the last one.
                joins = {name or self._name: figures for name, figures in self._look().items()}
                self._server.send({"at": time.time(), "joins": joins})
        except (PenstockError, ReferenceError):  # a stream that failed, or that nobody has
            _log.debug("a join left its page", exc_info=True)
        finally:
            self._trace.end_samples()
            self._server.send({"at": time.time(), "ended": list(joins)})
            with _servers_lock:
                self._server.names.remove(self._name)
                if not self._server.names:
                    with suppress(ValueError):  # it was dead
                        _servers.remove(self._server)
                    self._server.close()


def _server_at(port: int, address: str, token: str | None) -> _Server:
    """Find the page of this process at a place, or begin one.

    Raises
    ------
    UsageError, MissingToolError
    """
    if find_spec("bokeh") is None:
        raise MissingToolError(f"a page needs bokeh, which is missing; {installing('page')}")
    if token is not None and (len(token) < LEAST_TOKEN or not token.isprintable()):
        raise UsageError(
            f"the page's token has {len(token)} characters, and needs at least {LEAST_TOKEN}; make "
            "one with: openssl rand -hex 32"
        )
    if token is None and not _is_loopback(address):
        raise UsageError(
            f"{address} without a token would show the page to everybody on the network; give a "
            "token, or leave the address out and look through ssh -L"
        )
    _servers[:] = [one for one in _servers if one.is_alive]
    for one in _servers:
        if one.address == address and port in (0, one.port):
            if token == one.token:
                return one
            if port:
                raise UsageError(
                    f"the page on {address}:{port} has another token, or none; give the same for "
                    "all of its joins, or another port"
                )
    _servers.append(_Server(address, port, token))
    return _servers[-1]


def _is_loopback(address: str) -> bool:
    with suppress(ValueError):
        return ip_address(address).is_loopback
    return address == "localhost"


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
    """Show a join, or several by name; otherwise as :meth:`~.RunningQuery.page`.

    Parameters
    ----------
    reports : callable
        As for :class:`..metrics.exporter.ReportCollector`.
    trace : Trace, optional
        Of its lanes.
    ended : callable
        Whether the join has ended, and leaves the page.

    Raises
    ------
    UsageError, MissingToolError
    """
    trace, first = trace or Trace(), reports()
    aliases = ", ".join(first.arrived) if isinstance(first, Report) else "joins"
    return Page(name or aliases, looks_at(reports, trace), port, address, token, ended, trace)


def looks_at(reports: Reports, trace: Trace) -> Look:
    """Make the function that gives figures of reports, and what lanes did since its last call."""
    earlier: deque[Mapping[str, Report]] = deque(maxlen=MINUTE)
    offset = time.time() - time.monotonic()

    def look() -> dict[str, dict[str, Any]]:
        current = reports()
        by_name = {"": current} if isinstance(current, Report) else current
        earlier.append(by_name)
        joins = _figures(ReportCollector(lambda: by_name))
        spans = trace.sample(SPANS)
        for join, report in by_name.items():
            before = earlier[0].get(join) if len(earlier) == MINUTE else None
            findings = of_report(report, before)
            joins[join]["findings"] = [(one.text, one.remedy) for one in findings]
            joins[join]["unit"] = report.unit
            joins[join]["spans"] = [
                (span.track, span.name, span.began + offset, span.ended + offset) for span in spans
            ]
        return joins

    return look


def show_collector(
    collector: Collector, port: int, address: str, token: str | None, *, name: str
) -> Page:
    """Show the metrics of a server; otherwise as :func:`show_reports`."""
    return Page(name, lambda: _figures(collector), port, address, token)


def _figures(collector: Collector) -> dict[str, dict[str, Any]]:
    """Ask for metrics: their numbers and texts, by query."""
    metrics = list(collector.collect())
    texts = {metric.name.removeprefix(PREFIX): metric.documentation for metric in metrics}
    return {
        query: {"values": values, "texts": texts, "spans": (), "findings": (), "unit": ""}
        for query, values in values_by_query(metrics).items()
    }
