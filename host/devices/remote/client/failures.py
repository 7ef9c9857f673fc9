"""Errors of sessions with servers."""

from __future__ import annotations

from importlib.metadata import version

from penstock.errors import DeviceError

from ....wire.address import Address
from ....wire.handshake import TokenError
from ....wire.message import PROTOCOL
from ....wire.transport import FrameError


class SessionLostError(DeviceError):
    """The session with a server ended; its kernels and windows are gone."""


class AbsentError(DeviceError):
    """No server answers at an address."""


def unwelcome(where: Address, cause: BaseException, late: bool, connect_s: float) -> DeviceError:
    """The error that says why there is no session."""
    serve = f"penstock serve --listen {where}"
    if isinstance(cause, TokenError):
        return DeviceError(
            f"the server at {where} wants a token, and the one given is missing or wrong ({cause});"
            " give --token-file (token_file= of the device) with the server's"
        )
    if late:
        return AbsentError(
            f"the server at {where} did not answer within {connect_s:g} s: it hangs, or is no "
            f"server of Penstock; end it, and start one with: {serve}"
        )
    if isinstance(cause, FrameError) and _is_http2(cause.begun):
        return DeviceError(
            f"what answers at {where} speaks gRPC, as servers did up to protocol 2; this "
            f"client speaks protocol {PROTOCOL} (penstock {version('penstock')}): install the same "
            "version of penstock on both sides"
        )
    if isinstance(cause, FrameError):
        return DeviceError(
            f"what answers at {where} is no server of Penstock ({cause}); start one with: {serve}"
        )
    return AbsentError(f"no server answers at {where} ({cause}); start one with: {serve}")


def _is_http2(begun: bytes) -> bool:
    """Whether a connection begins as a gRPC server's does: with a frame of settings."""
    return len(begun) > 8 and begun[3] == 4 and not any(begun[4:9])
