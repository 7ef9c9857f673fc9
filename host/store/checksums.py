"""Checksums, to detect content that has changed or is under another name.

SHA-256, which processors compute by themselves, cut to 128 bits. It guards against disks, copies
and accidents, not against someone who can write the files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

_DIGITS = 32


#: Bytes, or any object with the buffer protocol.
Buffer = bytes | bytearray | memoryview | Any


class RunningChecksum:
    """Checksum of content that comes in pieces."""

    def __init__(self) -> None:
        self._sums = sha256()

    def add(self, piece: Buffer) -> None:
        self._sums.update(piece)

    @property
    def text(self) -> str:
        """Checksum of all pieces so far."""
        return self._sums.hexdigest()[:_DIGITS]


def checksum(content: Buffer) -> str:
    """Checksum of all bytes of a buffer."""
    sums = RunningChecksum()
    sums.add(content)
    return sums.text


def sealed(name: str, values: Mapping[str, Any]) -> str:
    """Values as JSON that only :func:`unsealed` of the same name takes."""
    seal = {"name": name, "checksum": _of_values(name, values), "values": values}
    return json.dumps(seal)


def unsealed(name: str, content: bytes | str) -> dict[str, Any]:
    """The values of :func:`sealed`.

    Raises
    ------
    ValueError
        The content is not what was written under this name; the message says why.
    """
    seal = json.loads(content)
    if not isinstance(seal, dict) or seal.keys() != {"name", "checksum", "values"}:
        raise ValueError("it has no checksum")
    values = seal["values"]
    if not isinstance(values, dict) or seal["checksum"] != _of_values(seal["name"], values):
        raise ValueError("its checksum does not fit its content")
    if seal["name"] != name:
        raise ValueError(f"it is a copy of {seal['name']}")
    return values


def _of_values(name: Any, values: Mapping[str, Any]) -> str:
    return checksum(json.dumps([name, values], sort_keys=True).encode())
