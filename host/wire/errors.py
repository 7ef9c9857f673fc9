"""Carries errors to another process: class and message, and nothing else."""

from __future__ import annotations

import logging
import secrets
from typing import Any

from penstock import errors
from penstock.errors import DeviceError, PenstockError

_log = logging.getLogger("penstock.server")

#: Characters of a message, at most; those of tools that failed have thousands.
MOST_MESSAGE = 10_000

#: Classes by name. Any other error on a server arrives as a DeviceError.
_CLASSES: dict[str, type[PenstockError]] = {
    name: value
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, PenstockError)
}


def error_header(error: BaseException) -> dict[str, Any]:
    """An error as a part of a header.

    Messages of Penstock travel unchanged. Other messages may name files, values or code of the
    server: they go to the server's log, and both sides get the number of the incident.
    """
    known = next((c.__name__ for c in type(error).__mro__ if c.__name__ in _CLASSES), None)
    if known is not None:
        return {"kind": known, "message": str(error)}
    incident = secrets.token_hex(4)
    _log.error("incident %s", incident, exc_info=error)
    return {"kind": "", "message": f"an error that it did not expect, incident {incident}"}


def error_from(header: Any, who: str) -> PenstockError:
    """The error that another process reported.

    Parameters
    ----------
    who : str
        Name of that process in messages: "the server at ADDRESS".
    """
    report = header if isinstance(header, dict) else {}
    kind = _CLASSES.get(str(report.get("kind")))
    message = str(report.get("message", "it did not say why"))[:MOST_MESSAGE]
    if kind is not None:
        error = kind(message)
        error.add_note(f"from {who}")
        return error
    return DeviceError(f"{who} failed: {message}; its log has more")
