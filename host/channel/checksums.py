"""The checksum of a slot: CRC-32C of its payload and its footer."""

from __future__ import annotations

import struct

from .crc32c import crc32c
from .message import FOOTER_BYTES, ConsumerMemory

_CHECKED = struct.Struct("<IHHQQ")


def checked_bytes(length: int, kind: int, flags: int, channel: int, sequence: int) -> bytes:
    """Footer bytes that the checksum covers after the payload."""
    return _CHECKED.pack(length, kind, flags, channel, sequence)


def slot_sum(memory: ConsumerMemory, slot: int, sequence: int) -> int:
    """Checksum that a slot's content should have under this sequence number."""
    length, kind, flags, channel, _, _ = memory.footer(slot)
    payload = crc32c(memory.payload(slot, length))
    return crc32c(checked_bytes(length, kind, flags, channel, sequence), payload)


def has_come(memory: ConsumerMemory, slot: int, sequence: int) -> bool:
    """Whether a slot's content and checksum fit a sequence number, whatever number it shows."""
    length, *_, crc, _ = memory.footer(slot)
    return length <= memory.slot_bytes - FOOTER_BYTES and slot_sum(memory, slot, sequence) == crc
