"""What the checksum of a slot covers."""

from __future__ import annotations

import struct

from .crc32c import crc32c
from .message import FOOTER_BYTES, ConsumerMemory

_CHECKED = struct.Struct("<IHHQQ")


def checked_bytes(length: int, kind: int, flags: int, channel: int, sequence: int) -> bytes:
    """The footer as its CRC covers it, behind the payload."""
    return _CHECKED.pack(length, kind, flags, channel, sequence)


def slot_sum(memory: ConsumerMemory, slot: int, sequence: int) -> int:
    """The checksum of a slot's content, if this is its sequence number."""
    length, kind, flags, channel, _, _ = memory.footer(slot)
    payload = crc32c(memory.payload(slot, length))
    return crc32c(checked_bytes(length, kind, flags, channel, sequence), payload)


def has_come(memory: ConsumerMemory, slot: int, sequence: int) -> bool:
    """Whether a slot's checksum is that of the sequence number, whatever number is there."""
    length, *_, crc, _ = memory.footer(slot)
    return length <= memory.slot_bytes - FOOTER_BYTES and slot_sum(memory, slot, sequence) == crc
