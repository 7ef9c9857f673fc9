"""Where Flight's streams come in, from those clients that may connect."""

from __future__ import annotations

import hmac
import os
from collections.abc import Mapping
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.flight as flight

from penstock.errors import DeviceError, PenstockError
from penstock.host.wire.address import Address, check_listen, clear_stale
from penstock.host.wire.message import MalformedError, field, parsed

#: Only the user who runs the server may connect to its socket.
_SOCKET_MASK = 0o177


class Streams(Protocol):
    """Who serves streams."""

    def hold_session(self, reader: Any, writer: Any) -> None: ...

    def serve_calls(self, key: str, reader: Any, writer: Any) -> None: ...


def listening(streams: Streams, address: Address, token: str | None) -> flight.FlightServerBase:
    """Listen at an address; clients must show the token, if there is one.

    Raises
    ------
    UsageError
        The address is taken, or must not be listened on without a token.
    DeviceError
        Flight cannot listen there.
    """
    check_listen(address, token)
    before = os.umask(_SOCKET_MASK)
    try:
        if address.path is not None:
            clear_stale(address.path)
        return _Service(streams, address.location, token)
    except PenstockError:
        raise  # some are OSErrors, too
    except (pa.ArrowException, OSError) as cause:
        raise DeviceError(f"cannot listen on {address}: {cause}; choose another address") from cause
    finally:
        os.umask(before)


class _Tokens(flight.ServerMiddlewareFactory):
    """Lets only those in who show the token."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._wanted = f"Bearer {token}".encode()

    def start_call(self, info: Any, headers: Mapping[str, list[Any]]) -> None:
        shown = [v.encode() if isinstance(v, str) else v for v in headers.get("authorization", ())]
        if not any(hmac.compare_digest(value, self._wanted) for value in shown):
            raise flight.FlightUnauthenticatedError("the token is missing or wrong")


class _Service(flight.FlightServerBase):
    """Tells the kinds of streams apart."""

    def __init__(self, streams: Streams, location: str, token: str | None) -> None:
        self._streams = streams
        super().__init__(location, middleware=None if token is None else {"token": _Tokens(token)})

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        try:
            command = parsed(descriptor.command)
            if command.get("stream") == "session":
                self._streams.hold_session(reader, writer)
            elif command.get("stream") == "calls":
                self._streams.serve_calls(field(command, "session", str), reader, writer)
            else:
                raise MalformedError(f"there is no stream {command.get('stream')!r:.80}")
        except MalformedError as error:
            raise flight.FlightServerError(str(error)) from error
