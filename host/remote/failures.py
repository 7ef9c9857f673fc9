"""What can become of a session with a server, in words."""

from __future__ import annotations

import pyarrow.flight as flight

from penstock.errors import DeviceError
from penstock.host.wire.address import Address


class LostError(DeviceError):
    """The session with a server ended; what it held there is gone."""


class AbsentError(DeviceError):
    """No server answers at an address."""


def unwelcome(where: Address, cause: BaseException, late: bool, connect_s: float) -> DeviceError:
    """Why there is no session."""
    serve = f"penstock serve --listen {where}"
    if isinstance(cause, flight.FlightUnauthenticatedError):
        return DeviceError(
            f"the server at {where} wants a token, and the one given is missing or wrong; give "
            "--token-file (token_file= of the device) with the server's"
        )
    if late:
        return AbsentError(
            f"the server at {where} did not answer within {connect_s:g} s: it hangs, or is no "
            f"server of Penstock; end it, and start one with: {serve}"
        )
    if isinstance(cause, flight.FlightUnavailableError):
        return AbsentError(f"no server answers at {where}; start one with: {serve}")
    return DeviceError(
        f"what answers at {where} is no server of Penstock ({first_line(cause)}); start one "
        f"with: {serve}"
    )


def first_line(error: BaseException) -> str:
    """What an error of Flight says, without its long tail."""
    return str(error).strip().partition("\n")[0][:200] or type(error).__name__
