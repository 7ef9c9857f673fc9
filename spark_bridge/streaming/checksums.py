"""Checksums: what is read is what was written, and under the same name.

SHA-256, which processors compute by themselves, cut to 128 bits. It guards against disks, copies
and accidents, not against someone who can write the folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, BinaryIO

_DIGITS = 32


def checksum(content: Any) -> str:
    """Checksum of bytes, or of anything that shows its memory as bytes."""
    return sha256(content).hexdigest()[:_DIGITS]


class SummedFile:
    """A binary file that is written from its beginning to its end, and its checksum so far.

    Parameters
    ----------
    file : BinaryIO
        Stays its owner's, who closes it.

    Attributes
    ----------
    bytes : int
        Written so far.
    """

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._sum, self.bytes = file, sha256(), 0

    @property
    def checksum(self) -> str:
        return self._sum.hexdigest()[:_DIGITS]

    def write(self, content: Any) -> int:
        size = memoryview(content).nbytes
        self._file.write(content)
        self._sum.update(content)
        self.bytes += size
        return size

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        self._file.flush()

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        """Nothing: the file stays open."""


def sealed(name: str, values: Mapping[str, Any]) -> str:
    """Values as JSON that only :func:`unsealed` of the same name takes."""
    seal = {"name": name, "checksum": _of_values(name, values), "values": values}
    return json.dumps(seal)


def unsealed(name: str, content: bytes | str) -> dict[str, Any]:
    """The values of :func:`sealed`.

    Raises
    ------
    ValueError
        The content is not what was written under this name; says why.
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
