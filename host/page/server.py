"""The process that serves a page: messages come on its standard input, a line of JSON each.

The first has ``address``, ``port`` and ``token``; the answer, on standard output, has the ``port``
or an ``error``. Each further one has the time ``at``, figures of ``joins`` by name as
:class:`.history.History` takes them, or names of those that have ``ended``. The process ends with
its input, or an empty message.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import secrets
import sys
import threading
from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from bokeh.server.auth_provider import AuthProvider
from bokeh.server.server import Server
from tornado.httputil import split_host_and_port
from tornado.ioloop import IOLoop, PeriodicCallback
from tornado.web import HTTPError

from .history import EVERY_S, History
from .view import View

#: Seconds in which open pages hear that all has ended.
_FAREWELL_S = 2.2 * EVERY_S
#: Joins that are shown after their end.
_ENDED = 20
#: Names of this machine for itself. A page without a token answers to no other name: a site of
#: somebody else that lets its name point here could read the page otherwise.
_HERE = {"127.0.0.1", "localhost", "::1"}


class Guard(AuthProvider):
    """Lets in whoever shows the token, on each request for the page and on its WebSocket.

    Parameters
    ----------
    token : str or None
        None lets in whoever asks this machine by one of its own names.
    address : str
        Another such name.
    """

    def __init__(self, token: str | None, address: str) -> None:
        self._token, self._names = token, {*_HERE, address}
        super().__init__()

    @property
    def login_url(self) -> str:
        return "/"

    @property
    def get_user_async(self) -> Any:
        return self._check

    async def _check(self, handler: Any) -> str:
        request = handler.request
        if self._token is None:
            origin = request.headers.get("Origin", f"//{request.host}")
            asked_as = {_host(request.host), _host(origin)}
            if not asked_as <= self._names:
                raise HTTPError(403, reason="This page answers to 127.0.0.1 and localhost alone")
            return "user"
        shown = handler.get_query_argument("token", "", strip=False).encode()
        # Tornado reads headers as Latin-1, whatever their senders meant.
        header = request.headers.get("Authorization", "").removeprefix("Bearer ").encode("latin-1")
        if not hmac.compare_digest(shown or header, self._token.encode()):
            raise HTTPError(403, reason="Wrong token, or none: open /?token=TOKEN")
        return "user"


def _host(place: str) -> str:
    """The host of ``HOST[:PORT]``, or of an origin, ``http://HOST[:PORT]``."""
    return split_host_and_port(place.rpartition("//")[2].lower())[0].strip("[]")


class PageServer:
    """Keeps what it hears of joins, and shows it.

    Parameters
    ----------
    address : str
    port : int
        0 takes a free one.
    token : str or None

    Raises
    ------
    OSError
        The port is taken.
    """

    def __init__(self, address: str, port: int, token: str | None) -> None:
        self.joins: dict[str, History] = {}
        self._server = Server(
            {"/": lambda document: View(document, self.joins).begin()},
            port=port,
            address=address,
            auth_provider=Guard(token, address),
            secret_key=secrets.token_hex(32).encode(),
            sign_sessions=True,
            allow_websocket_origin=["*"],  # the guard looks at it
            check_unused_sessions_milliseconds=5000,
            unused_session_lifetime_milliseconds=5000,
        )
        self.port = self._server.port

    def hear(self, message: Mapping[str, Any]) -> None:
        """Take in a message."""
        for name, figures in message.get("joins", {}).items():
            if name not in self.joins or self.joins[name].ended is not None:
                self.joins[name] = History()
            self.joins[name].hear(message["at"], figures)
        for name in message.get("ended", ()):
            self.joins[name].ended = message["at"]
        for name in [name for name, one in self.joins.items() if one.ended is not None][:-_ENDED]:
            del self.joins[name]

    def run(self, lines: Any) -> None:
        """Serve until there are no more lines."""
        loop = IOLoop.current()

        def read() -> None:
            # An empty message is the last one.
            for message in takewhile(bool, map(json.loads, lines)):
                loop.add_callback(self.hear, message)
            loop.add_callback(self._server._http.stop)  # the next page may take the port
            loop.add_callback(loop.call_later, _FAREWELL_S, loop.stop)

        threading.Thread(target=read, daemon=True).start()
        self._server.start()
        loop.start()


def main() -> None:
    """Serve a page for the process that has started this one."""
    logging.getLogger("bokeh").setLevel(logging.ERROR)
    logging.getLogger("tornado").setLevel(logging.CRITICAL)
    parent, wanted = os.getppid(), json.loads(sys.stdin.readline())
    try:
        server = PageServer(wanted["address"], wanted["port"], wanted["token"])
    except (OSError, OverflowError) as error:
        answer = {"error": str(error.strerror if isinstance(error, OSError) else error)}
        print(json.dumps(answer), flush=True)  # noqa: T201
        return
    print(json.dumps({"port": server.port}), flush=True)  # noqa: T201

    def look() -> None:
        if os.getppid() != parent:  # a fork of it may keep our input open
            os._exit(0)

    PeriodicCallback(look, 1000).start()
    server.run(sys.stdin)


if __name__ == "__main__":
    main()
