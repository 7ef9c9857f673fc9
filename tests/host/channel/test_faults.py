"""Damage in a channel's memory: an error or the right message, no wrong one and no hang."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable

import numpy as np
import pytest

from penstock.host.channel import FOOTER_BYTES, Consumer, Message, MessageKind, Producer, shm
from penstock.host.channel.crc32c import crc32c
from penstock.host.device.fields import MalformedError
from penstock.host.wire.sealed import map_memory
from tests.kit.effort import effort

SLOT = 192
CAPACITY = SLOT - FOOTER_BYTES

Damage = Callable[[random.Random, np.ndarray, np.ndarray], None]


class Rig:
    """A channel whose memory can be reached from outside."""

    def __init__(self, slots: int, *, crc: bool) -> None:
        ends = shm.create(slots, SLOT, crc=crc)
        size = os.fstat(ends.file).st_size
        memory = map_memory(ends.file, size)
        #: Shape (slots, bytes of a slot).
        self.slots = memory[size - slots * SLOT :].reshape(slots, SLOT)
        self.head = memory[: size - slots * SLOT]
        self.producer: Producer = ends.producer()
        self.consumer: Consumer = ends.consumer()
        ends.close()

    def put(self, number: int, at: int, form: str, value: int) -> None:
        """Change a field of the footer of message ``number``."""
        footer = self.slots[number % len(self.slots), CAPACITY:]
        struct.pack_into(form, footer.data, at, value)


def flip_bit(draw: random.Random, slot: np.ndarray, before: np.ndarray) -> None:
    slot[draw.randrange(SLOT)] ^= 1 << draw.randrange(8)


def flip_footer_bit(draw: random.Random, slot: np.ndarray, before: np.ndarray) -> None:
    slot[draw.randrange(CAPACITY, SLOT)] ^= 1 << draw.randrange(8)


def write_bytes(draw: random.Random, slot: np.ndarray, before: np.ndarray) -> None:
    for _ in range(draw.randint(1, 8)):
        slot[draw.randrange(SLOT)] = draw.randrange(256)


def write_zeros(draw: random.Random, slot: np.ndarray, before: np.ndarray) -> None:
    start = draw.randrange(SLOT)
    slot[start : draw.randint(start + 1, SLOT)] = 0


def write_noise(draw: random.Random, slot: np.ndarray, before: np.ndarray) -> None:
    slot[:] = np.frombuffer(draw.randbytes(SLOT), np.uint8)


def keep_some_lines_of_the_lap_before(
    draw: random.Random, slot: np.ndarray, before: np.ndarray
) -> None:
    for start in range(0, SLOT, 64):
        if draw.random() < 0.5:
            slot[start : start + 64] = before[start : start + 64]


DAMAGES: list[Damage] = [
    flip_bit,
    flip_footer_bit,
    write_bytes,
    write_zeros,
    write_noise,
    keep_some_lines_of_the_lap_before,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damaged_slots_give_an_error_or_the_right_message(damage: Damage):
    """In the full run all damages together are more than 100,000."""
    draw = random.Random(damage.__name__)
    rig = Rig(4, crc=True)
    errors = 0
    for _ in range(effort(17_000, 3_000)):
        slot = rig.slots[(rig.producer.sent + 1) % 4]
        before = slot.copy()
        payload = draw.randbytes(draw.randint(0, CAPACITY))
        assert rig.producer.send(MessageKind.ROWS, payload)
        intact = slot.copy()
        damage(draw, slot, before)
        message = _received(rig)
        errors += message is None
        # As it was, it arrives; a failed attempt has changed nothing.
        slot[:] = intact
        message = message or rig.consumer.receive()
        assert message is not None
        assert (message.kind, bytes(message.payload)) == (MessageKind.ROWS, payload)
        rig.consumer.done(message)
        if (following := rig.consumer.receive()) is not None:
            assert bytes(following.payload) == b"the next one"
            rig.consumer.done(following)
    assert errors > effort(1_000, 50)


def _received(rig: Rig) -> Message | None:
    """What a damaged slot gives; None after an error."""
    try:
        message = rig.consumer.receive()
        if message is None:
            rig.consumer.check()
            # It looks as if nothing had come, until the next slot comes or a wait's time is over.
            assert rig.producer.send(MessageKind.CONTROL, b"the next one")
            rig.consumer.check()
            raise AssertionError("a slot that has come is not noticed")
    except MalformedError:
        return None
    return message


#: Fields of a footer that no producer of this channel writes: place, form, value.
FIELDS = {
    "length": (0, "<I", CAPACITY + 1),
    "kind 0": (4, "<H", 0),
    "kind 8": (4, "<H", 8),
    "flags": (6, "<H", 2),
    "channel": (8, "<Q", 7),
    "reserved": (20, "<I", 1),
    "sequence of the next lap": (24, "<Q", 4),
    "sequence of another slot": (24, "<Q", 2),
    "sequence far away": (24, "<Q", (1 << 64) - 1),
}


@pytest.mark.parametrize("field", FIELDS)
def test_damaged_footers_are_errors_without_checksums_too(field: str):
    rig = Rig(3, crc=False)
    rig.producer.send(MessageKind.ROWS, b"abc")
    rig.put(1, *FIELDS[field])
    with pytest.raises(MalformedError, match=r"slot 1: .*restart both"):
        rig.consumer.receive()
    with pytest.raises(MalformedError, match=r"slot 1: .*restart both"):
        _ = rig.consumer.receive()


def test_a_slot_whose_number_has_not_come_is_noticed_by_the_next_one():
    rig = Rig(3, crc=False)
    rig.producer.send(MessageKind.ROWS, b"abc")
    rig.put(1, 24, "<Q", 0)
    assert rig.consumer.receive() is None
    rig.consumer.check()
    rig.producer.send(MessageKind.ROWS, b"def")
    assert rig.consumer.receive() is None
    with pytest.raises(MalformedError, match="has come and its sequence number has not"):
        rig.consumer.check()


def test_check_is_quiet_on_an_intact_channel():
    rig = Rig(2, crc=True)
    for _ in range(5):
        rig.consumer.check()
        rig.producer.send(MessageKind.ROWS, b"abc")
        rig.consumer.check()
        message = rig.consumer.receive()
        assert message is not None
        rig.consumer.done(message)


def test_another_kind_within_a_message_is_an_error():
    rig = Rig(3, crc=False)
    assert rig.producer.send(MessageKind.DELTA, bytes(2 * CAPACITY))
    rig.put(2, 4, "<H", MessageKind.ROWS)
    with pytest.raises(MalformedError, match="ROWS within a message of kind DELTA"):
        rig.consumer.receive()


def test_a_part_that_is_not_full_is_an_error():
    rig = Rig(3, crc=False)
    assert rig.producer.send(MessageKind.DELTA, bytes(2 * CAPACITY))
    rig.put(1, 0, "<I", CAPACITY - 1)
    with pytest.raises(MalformedError, match="not full"):
        rig.consumer.receive()


def test_a_message_of_too_many_parts_is_an_error(monkeypatch: pytest.MonkeyPatch):
    rig = Rig(3, crc=False)
    rig.producer.send(MessageKind.DELTA, bytes(3 * CAPACITY))
    monkeypatch.setattr("penstock.host.channel.consumer.MOST_MESSAGE_BYTES", 2 * CAPACITY)
    with pytest.raises(MalformedError, match="one too many"):
        rig.consumer.receive()


@pytest.mark.parametrize("count", [3, 1 << 40, (1 << 63) + 1])
def test_an_impossible_count_of_credits_is_an_error(count: int):
    rig = Rig(2, crc=False)
    rig.producer.send(MessageKind.ROWS, b"1")
    rig.producer.send(MessageKind.ROWS, b"2")
    struct.pack_into("<Q", rig.head.data, 2048, count)
    with pytest.raises(MalformedError, match=f"says that {count} slots are processed"):
        _ = rig.producer.credits
    with pytest.raises(MalformedError, match="restart both"):
        rig.producer.send(MessageKind.ROWS, b"3")


def test_a_count_of_credits_that_comes_again_tells_nothing():
    rig = Rig(2, crc=False)
    for _ in range(3):
        rig.producer.send(MessageKind.ROWS, b"x")
        message = rig.consumer.receive()
        assert message is not None
        rig.consumer.done(message)
    assert rig.producer.credits == 2
    struct.pack_into("<Q", rig.head.data, 2048, 1)
    assert rig.producer.credits == 2


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"", 0), (b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43)],
    ids=["empty", "digits", "zeros", "ones"],
)
def test_checksums_are_those_of_the_standard(data: bytes, expected: int):
    """Known answers of RFC 3720, section B.4."""
    assert crc32c(data) == expected
    for cut in range(len(data) + 1):
        assert crc32c(data[cut:], crc32c(data[:cut])) == expected


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("number", [1, 2, 4, 6])
def test_damage_within_a_large_message_is_an_error(field: str, number: int):
    """Compiled code joins the slots, and leaves what it does not know to the plain way."""
    rig = Rig(8, crc=False)
    assert rig.producer.send(MessageKind.DELTA, bytes(5 * CAPACITY + 7))
    at, form, value = FIELDS[field]
    # The values are those of slot 1: the next lap's and another slot's numbers are others here.
    value = {4: number + 8, 2: number + 1}.get(value, value) if at == 24 else value
    rig.put(number, at, form, value)
    with pytest.raises(MalformedError, match=f"slot {number}: "):
        rig.consumer.receive()


def test_an_impossible_count_of_credits_ends_a_large_message():
    rig = Rig(4, crc=False)
    assert not rig.producer.send(MessageKind.DELTA, bytes(6 * CAPACITY))
    struct.pack_into("<Q", rig.head.data, 2048, 7)
    with pytest.raises(MalformedError, match="says that 7 slots are processed"):
        rig.producer.pump()


@pytest.mark.parametrize("slots", [2, 3, 8])
def test_compiled_and_plain_ways_do_the_same(slots: int):
    """With checksums no slot is filled or joined by compiled code."""
    draw = random.Random(slots)
    rigs = [Rig(slots, crc=crc) for crc in (False, True)]
    for size in (0, CAPACITY, 2 * CAPACITY, 7 * CAPACITY + 3, 40 * CAPACITY, 3 * CAPACITY + 1):
        payload = draw.randbytes(size)
        got = []
        for rig in rigs:
            is_sent = rig.producer.send(MessageKind.ROWS, payload)
            while (message := rig.consumer.receive()) is None:
                assert not is_sent
                is_sent = rig.producer.pump()
            got.append((message.kind, bytes(message.payload), message.sequence, rig.producer.sent))
            rig.consumer.done(message)
            assert rig.consumer.receive() is None
            assert rig.producer.credits == slots
        assert got[0] == got[1]
        assert got[0][1] == payload
