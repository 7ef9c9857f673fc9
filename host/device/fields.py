"""Checked access to fields of descriptions in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.errors import DeviceError

Header = dict[str, Any]


class MalformedError(DeviceError):
    """A description that this version would never write."""


def field(header: Mapping[str, Any], name: str, kind: type) -> Any:
    """A field of a header.

    Raises
    ------
    MalformedError
        The field is missing, or of another kind.
    """
    value = header.get(name)
    # A bool is an int to Python, but never intended.
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise MalformedError(f"a message needs {name} as {kind.__name__}, and has {value!r:.80}")
    return value


def count_field(header: Mapping[str, Any], name: str, most: int = (1 << 63) - 1) -> int:
    """A field that is an integer from 0 to ``most``.

    Raises
    ------
    MalformedError
    """
    value = field(header, name, int)
    if not 0 <= value <= most:
        raise MalformedError(f"a message has {name} {value!r:.80}, which is not in 0 to {most}")
    return value
