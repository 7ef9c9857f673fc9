"""The two ends of a channel in one process: messages, credits, cuts, and what is refused."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

from penstock.errors import DeviceError, UsageError
from penstock.host.channel import FOOTER_BYTES, Consumer, MessageKind, Producer, shm
from penstock.host.channel.ring_memory import ShmMemory, ring_bytes, write_head
from penstock.host.device.fields import MalformedError

SLOT = 128
CAPACITY = SLOT - FOOTER_BYTES


def ends(
    slots: int = 3, slot_bytes: int = SLOT, *, crc: bool = False, spins: bool = True
) -> tuple[Producer, Consumer]:
    made = shm.create(slots, slot_bytes, crc=crc)
    try:
        return (
            shm.attach_producer(made.file, spins=spins),
            shm.attach_consumer(made.file, spins=spins),
        )
    finally:
        made.close()


def take(consumer: Consumer) -> tuple[MessageKind, bytes]:
    message = consumer.receive()
    assert message is not None
    content = bytes(message.payload)
    consumer.done(message)
    return message.kind, content


@pytest.mark.parametrize("slots", [0, -1, 1 << 20])
def test_numbers_of_slots_out_of_range_are_refused(slots: int):
    with pytest.raises(UsageError, match=f"not {slots}"):
        shm.create(slots)


@pytest.mark.parametrize("slot_bytes", [0, 32, 100, 1 << 30])
def test_sizes_of_slots_out_of_range_are_refused(slot_bytes: int):
    with pytest.raises(UsageError, match=f"not {slot_bytes}"):
        shm.create(2, slot_bytes)


def test_a_file_that_is_no_memory_is_refused(tmp_path):
    file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    try:
        with pytest.raises(MalformedError, match="not sealed"):
            shm.attach_producer(file)
    finally:
        os.close(file)
    with pytest.raises(DeviceError, match="no shared memory of a channel can be mapped"):
        shm.attach_consumer(file)


@pytest.mark.parametrize(("slots", "slot_bytes"), [(0, SLOT), (2_000_000, 0), (2, 100)])
def test_a_ring_of_impossible_slots_is_refused(slots: int, slot_bytes: int):
    memory = np.zeros(ring_bytes(slots, slot_bytes), np.uint8)
    write_head(memory, slots, slot_bytes, has_crc=False, channel=1)
    with pytest.raises(MalformedError, match="no ring of version"):
        ShmMemory(memory)


@pytest.mark.parametrize("place", [0, 8, 12, 16])
def test_memory_of_another_form_is_refused(place: int):
    made = shm.create(2, SLOT)
    try:
        os.pwrite(made.file, b"\xff", place)
        with pytest.raises(MalformedError, match="no ring of version"):
            made.consumer()
    finally:
        made.close()


@pytest.mark.parametrize("crc", [False, True])
@pytest.mark.parametrize("slots", [1, 2, 3, 8])
def test_messages_arrive_once_and_in_order(slots: int, crc: bool):
    producer, consumer = ends(slots, crc=crc)
    for number in range(4 * slots):
        assert producer.send(MessageKind(1 + number % 6), bytes([number]) * (number % CAPACITY))
        assert take(consumer) == (
            MessageKind(1 + number % 6),
            bytes([number]) * (number % CAPACITY),
        )
        assert consumer.receive() is None


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        bytearray(b"abc"),
        memoryview(b"abc"),
        np.arange(5),
        np.zeros((0, 3)),
        [b"ab", b"", np.arange(3, dtype=np.int16), memoryview(bytearray(b"c"))],
        [],
        [bytes(CAPACITY), b"x"],
        b"y" * CAPACITY,
    ],
    ids=lambda payload: type(payload).__name__,
)
def test_any_buffers_can_be_sent(payload):
    producer, consumer = ends()
    assert producer.send(MessageKind.ROWS, payload)
    parts = payload if isinstance(payload, list) else [payload]
    assert take(consumer) == (MessageKind.ROWS, b"".join(bytes(part) for part in parts))


def test_without_credits_a_message_waits():
    producer, consumer = ends(2)
    assert producer.credits == 2
    assert producer.send(MessageKind.ROWS, b"1")
    assert producer.send(MessageKind.ROWS, b"2")
    assert producer.credits == 0
    assert not producer.send(MessageKind.ROWS, b"3")
    assert producer.pending
    with pytest.raises(UsageError, match="call pump"):
        producer.send(MessageKind.ROWS, b"4")
    assert not producer.pump()
    assert take(consumer) == (MessageKind.ROWS, b"1")
    assert producer.pump()
    assert not producer.pending
    assert [take(consumer), take(consumer)] == [(MessageKind.ROWS, b"2"), (MessageKind.ROWS, b"3")]
    assert consumer.receive() is None
    assert producer.credits == 2


def test_a_slot_is_not_given_back_before_its_message_is_done():
    producer, consumer = ends(2)
    producer.send(MessageKind.ROWS, b"1")
    message = consumer.receive()
    assert message is not None
    assert consumer.receive() is None
    assert producer.credits == 1
    consumer.done(message)
    assert consumer.receive() is None
    assert producer.credits == 2


def test_messages_may_be_done_in_any_order():
    producer, consumer = ends(4)
    for number in range(4):
        producer.send(MessageKind.ROWS, bytes([number]))
    taken = [consumer.receive() for _ in range(4)]
    for number, credits in ((1, 0), (3, 0), (2, 0), (0, 4)):
        message = taken[number]
        assert message is not None
        consumer.done(message)
        consumer.receive()
        assert producer.credits == credits


def test_done_twice_is_refused():
    producer, consumer = ends(4)
    for _ in range(3):
        producer.send(MessageKind.ROWS, b"x")
    first, second = consumer.receive(), consumer.receive()
    assert first is not None
    assert second is not None
    consumer.done(second)
    with pytest.raises(UsageError, match="done already"):
        consumer.done(second)
    consumer.done(first)
    with pytest.raises(UsageError, match="done already"):
        consumer.done(first)


def test_credits_return_at_the_latest_after_half_of_the_slots():
    producer, consumer = ends(8)
    for _ in range(8):
        producer.send(MessageKind.ROWS, b"x")
    counts = []
    for _ in range(8):
        message = consumer.receive()
        assert message is not None
        consumer.done(message)
        counts.append(producer.credits)
    assert counts == [0, 0, 0, 4, 4, 4, 4, 8]


@pytest.mark.parametrize("slots", [1, 2, 3])
@pytest.mark.parametrize(("crc", "spins"), [(False, True), (False, False), (True, True)])
def test_large_messages_are_cut(slots: int, crc: bool, spins: bool):
    producer, consumer = ends(slots, crc=crc, spins=spins)
    draw = random.Random(slots)
    for size in (CAPACITY + 1, 2 * CAPACITY, 10 * CAPACITY + 7):
        payload = draw.randbytes(size)
        cut = draw.randrange(size)
        is_sent = producer.send(MessageKind.DELTA, [payload[:cut], memoryview(payload)[cut:]])
        while (message := consumer.receive()) is None:
            assert not is_sent
            is_sent = producer.pump()
        assert (message.kind, bytes(message.payload)) == (MessageKind.DELTA, payload)
        consumer.done(message)
        assert consumer.receive() is None
    assert producer.credits == slots


def test_memory_of_a_large_message_is_used_again_when_nobody_holds_it():
    producer, consumer = ends(2)

    def message(number: int) -> memoryview:
        is_sent = producer.send(MessageKind.ROWS, bytes([number]) * (3 * CAPACITY))
        while (message := consumer.receive()) is None:
            assert not is_sent
            is_sent = producer.pump()
        return message.payload

    held = [message(number) for number in range(5)]
    assert [bytes(payload[:1]) for payload in held] == [bytes([number]) for number in range(5)]
    places = {np.frombuffer(payload, np.uint8).ctypes.data for payload in held}
    assert len(places) == 5
    part = np.frombuffer(held[4], np.uint8)[1:2]
    held.clear()
    following = np.frombuffer(message(5), np.uint8)
    assert following.ctypes.data in places
    assert part[0] == 4


def test_a_copy_that_lets_other_threads_run_copies_the_same():
    producer, consumer = ends(2, 1 << 20)
    payload = np.random.default_rng(1).integers(0, 256, (1 << 20) - FOOTER_BYTES, np.uint8)
    assert producer.send(MessageKind.ROWS, payload)
    assert take(consumer) == (MessageKind.ROWS, payload.tobytes())


def test_too_large_messages_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("penstock.host.channel.producer.MOST_MESSAGE_BYTES", 1000)
    producer, _ = ends()
    with pytest.raises(UsageError, match="1001 bytes is above the limit of 1000"):
        producer.send(MessageKind.ROWS, bytes(1001))


def test_nothing_follows_close():
    producer, consumer = ends()
    assert producer.send(MessageKind.CLOSE)
    with pytest.raises(UsageError, match="closed"):
        producer.send(MessageKind.ROWS)
    assert not consumer.closed
    take(consumer)
    assert consumer.closed


def test_both_sides_ring():
    rung: list[str] = []

    def since() -> set[str]:
        sides = set(rung)
        rung.clear()
        return sides

    made = shm.create(2, SLOT)
    producer = made.producer(lambda: rung.append("consumer"))
    consumer = made.consumer(lambda: rung.append("producer"))
    made.close()
    producer.send(MessageKind.ROWS, bytes(3 * CAPACITY))
    assert since() == {"consumer"}
    assert not producer.pump()
    assert since() == set()
    assert consumer.receive() is None
    assert since() == {"producer"}
    assert consumer.receive() is None
    assert since() == set()
    assert producer.pump()
    assert since() == {"consumer"}
    producer.send(MessageKind.ROWS, b"small")
    assert since() == {"consumer"}


def test_the_first_slot_of_a_large_message_rings_at_once():
    """Or a consumer that sleeps would wake when all slots are full."""
    seen = []
    made = shm.create(8, SLOT)
    consumer = made.consumer()
    producer = made.producer(lambda: seen.append(consumer.memory.sequence(2)))
    made.close()
    assert producer.send(MessageKind.ROWS, bytes(6 * CAPACITY))
    assert seen[0] == 0
    assert seen[-1] == 2


@pytest.mark.parametrize("crc", [False, True])
def test_parts_of_a_message_can_be_taken_as_they_come(crc: bool):
    producer, consumer = ends(2, crc=crc)
    payload = os.urandom(3 * CAPACITY + 5)
    assert not producer.send(MessageKind.DELTA, payload)
    parts, goes_on = [], []
    while not goes_on or goes_on[-1]:
        message = consumer.receive(whole=False)
        if message is None:
            producer.pump()
            continue
        assert message.kind is MessageKind.DELTA
        parts.append(bytes(message.payload))
        goes_on.append(message.goes_on)
        consumer.done(message)
    assert b"".join(parts) == payload
    assert goes_on == [True, True, True, False]
    assert producer.send(MessageKind.ROWS, b"next")
    assert take(consumer) == (MessageKind.ROWS, b"next")
