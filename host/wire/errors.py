"""Errors of a server as those of its client: the same class and message, with the traceback."""

from __future__ import annotations

import traceback
from typing import Any

from penstock import errors
from penstock.errors import DeviceError, PenstockError

#: Classes by name. Whatever else happens on a server arrives as a DeviceError.
_CLASSES: dict[str, type[PenstockError]] = {
    name: value
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, PenstockError)
}


def error_header(error: BaseException) -> dict[str, Any]:
    """An error as a part of a header."""
    known = next((c.__name__ for c in type(error).__mro__ if c.__name__ in _CLASSES), None)
    return {
        "kind": known or "",
        "message": str(error) if known else f"{type(error).__name__}: {error}",
        "traceback": "".join(traceback.format_exception(error)),
    }


def error_from(header: Any, address: str) -> PenstockError:
    """The error that a server reported; its traceback there is a note of it."""
    given = header if isinstance(header, dict) else {}
    made = _CLASSES.get(str(given.get("kind")))
    message = str(given.get("message", "it did not say why"))
    error = (
        made(message)
        if made is not None
        else DeviceError(f"the server at {address} failed: {message}; its log says more")
    )
    error.add_note(f"on the server at {address}:\n{given.get('traceback', '')}")
    return error
