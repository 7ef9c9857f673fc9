"""Bitstreams of the virtual board: a ``.bit`` file with Verilog in place of configuration frames.

PYNQ reads and sends them as it does any other; only the virtual board can load them.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from penstock.errors import DeviceError

_MAGIC = b"PENSTOCK"
#: First field of every ``.bit`` file, and the number of fields that follows it.
_PREAMBLE = bytes.fromhex("0009 0ff0 0ff0 0ff0 0ff0 00 0001")


@dataclass(frozen=True)
class Image:
    """Content of a bitstream of the virtual board.

    Parameters
    ----------
    part : str
        FPGA part.
    top : str
        Name of the kernel's module.
    verilog : str
    table : mapping
        The kernel's exported table.
    bases : list of int
        Addresses of the registers of each copy of the kernel.
    leds : int, optional
        Address of an AXI GPIO with LEDs.
    """

    part: str
    top: str
    verilog: str
    table: Mapping[str, Any]
    bases: list[int]
    leds: int | None = None


def pack(image: Image) -> bytes:
    """An image as bytes, padded to whole words."""
    payload = zlib.compress(json.dumps(asdict(image), sort_keys=True).encode(), 9)
    data = _MAGIC + struct.pack(">I", len(payload)) + payload
    return data + bytes(-len(data) % 4)


def unpack(data: bytes) -> Image:
    """The image from :func:`pack`.

    Raises
    ------
    DeviceError
        There is none, or it is damaged.
    """
    if not data.startswith(_MAGIC):
        raise DeviceError(
            "this overlay was not made for a virtual board, which runs Verilog; make one with "
            "`penstock board package --virtual`"
        )
    start = len(_MAGIC) + 4
    (length,) = struct.unpack(">I", data[start - 4 : start])
    try:
        return Image(**json.loads(zlib.decompress(data[start : start + length])))
    except (zlib.error, ValueError, TypeError) as error:
        raise DeviceError(f"the overlay is damaged: {error}") from error


def write_bit(image: Image, name: str) -> bytes:
    """Contents of a ``.bit`` file: header, then the image as its data."""
    data = pack(image)
    found = bytearray(_PREAMBLE)
    fields = {b"a": f"{name};Version=virtual", b"b": image.part.removeprefix("xc")}
    for key, text in (fields | {b"c": "1970/01/01", b"d": "00:00:00"}).items():
        value = text.encode("ascii") + b"\0"
        found += key + struct.pack(">H", len(value)) + value
    found += b"e" + struct.pack(">I", len(data)) + data
    return bytes(found)


def read_bin(binary: bytes) -> Image:
    """The image in data that PYNQ sends to the FPGA manager, with the bytes of each word swapped.

    Raises
    ------
    DeviceError
        It is no bitstream of the virtual board, or damaged.
    """
    if len(binary) % 4:
        raise DeviceError(f"a bitstream has whole words, not {len(binary)} bytes")
    return unpack(np.frombuffer(binary, "<u4").byteswap().tobytes())
