"""What every provider of channels must do: on shared and simulated memory, and through UCX."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from penstock.host.channel import FOOTER_BYTES, MessageKind, ProcessGoneError
from tests.host.channel.subjects import Caller, Make, makers
from tests.kit.effort import effort

SLOT = 256
CAPACITY = SLOT - FOOTER_BYTES


@pytest.fixture(scope="module")
def providers() -> Iterator[dict[str, Make]]:
    with ExitStack() as stack:
        yield makers(stack)


@pytest.fixture(params=["shm", "sim", "ucx tcp", "ucx memory"])
def make(request: pytest.FixtureRequest, providers: dict[str, Make]) -> Make:
    return providers[request.param]


@pytest.mark.parametrize("crc", [False, True])
@pytest.mark.parametrize("slots", [1, 2, 3, 8])
def test_messages_of_any_size_come_back_in_order(make: Make, slots: int, crc: bool):
    draw = random.Random(slots)
    caller = Caller(make("echo", slots, SLOT, crc=crc, seed=slots))
    sent = []
    for _ in range(effort(500, 60)):
        size = draw.choice((0, 1, 8, CAPACITY - 1, CAPACITY, CAPACITY + 1, 5 * CAPACITY))
        message = (MessageKind(draw.randint(1, 6)), draw.randbytes(size))
        caller.send(*message)
        sent.append(message)
    assert caller.take(len(sent)) == sent
    caller.close()


def test_the_consumer_sets_the_pace(make: Make):
    caller = Caller(make("hold", 3, SLOT))
    producer, consumer = caller.subject.producer, caller.subject.consumer
    for number in range(3):
        assert producer.send(MessageKind.ROWS, bytes([number]))
    assert producer.credits == 0
    assert not producer.send(MessageKind.ROWS, b"waits")
    caller.subject.until(lambda: consumer.has_arrived)
    assert not producer.pump()
    assert caller.take(1) == [(MessageKind.CONTROL, b"holds all")]
    consumer.receive()  # the ring is empty, so the credit goes back and the peer lets go
    caller.subject.until(producer.pump)
    assert caller.take(2)[1:] == [(MessageKind.ROWS, b"waits")]
    caller.close()


def test_a_message_stays_until_it_is_done(make: Make):
    caller = Caller(make("pour", 3, SLOT, seed=5))
    consumer = caller.subject.consumer
    held = []
    for number in range(effort(2000, 200)):
        caller.subject.until(lambda: consumer.has_arrived)
        message = consumer.receive()
        assert message is not None
        held.append((number, message))
        # All slots are held now and then; what they hold does not change meanwhile.
        if len(held) >= 1 + number % 3:
            for expected, message in held:
                assert int.from_bytes(message.payload, "little") == expected
                consumer.done(message)
            held.clear()
    for _, message in held:
        consumer.done(message)
    caller.close()
    assert caller.taken[-1][0] is MessageKind.CLOSE
    assert int.from_bytes(caller.taken[-1][1], "little") >= effort(2000, 200)


@pytest.mark.parametrize("provider", ["shm", "ucx tcp", "ucx memory"])
def test_large_slots_come_back(providers: dict[str, Make], provider: str):
    # Several segments of a stream each.
    caller = Caller(providers[provider]("echo", 2, 1 << 18))
    draw = random.Random(1)
    sent = [
        (MessageKind.ROWS, draw.randbytes(size)) for size in (1 << 20, 1 << 18, 200_000, 65_536, 1)
    ]
    for kind, payload in sent:
        cut = len(payload) // 3
        caller.send(kind, [payload[:cut], payload[cut:]])
    assert caller.take(len(sent)) == sent
    caller.close()


@pytest.mark.parametrize("provider", ["shm", "ucx tcp", "ucx memory"])
def test_no_wake_up_is_lost(providers: dict[str, Make], provider: str):
    # Without spinning, every message finds the other side asleep or about to be.
    caller = Caller(providers[provider]("echo", 2, SLOT, spin_s=0.0))
    for number in range(effort(20_000, 1_000 if provider == "shm" else 300)):
        caller.send(MessageKind.ROWS, number.to_bytes(4, "little"))
        assert caller.take(1) == [(MessageKind.ROWS, number.to_bytes(4, "little"))]
        caller.taken.clear()
    caller.close()


@pytest.mark.parametrize("provider", ["shm", "sim"])  # the next test shows it of all
def test_the_death_of_the_other_side_ends_a_wait(providers: dict[str, Make], provider: str):
    caller = Caller(providers[provider]("echo", 2, SLOT))
    caller.send(MessageKind.ROWS, b"alive")
    assert caller.take(1) == [(MessageKind.ROWS, b"alive")]
    caller.subject.kill()
    consumer = caller.subject.consumer
    with pytest.raises(ProcessGoneError, match="the peer has ended"):
        caller.subject.until(lambda: consumer.has_arrived)


def test_what_came_before_a_death_can_be_read(make: Make):
    caller = Caller(make("hold", 1, SLOT))
    consumer = caller.subject.consumer
    assert caller.subject.producer.send(MessageKind.ROWS, b"x")
    caller.subject.until(lambda: consumer.has_arrived)
    caller.subject.kill()
    caller.subject.until(lambda: consumer.has_arrived)
    assert caller.take(1) == [(MessageKind.CONTROL, b"holds all")]
    with pytest.raises(ProcessGoneError, match="the peer has ended"):
        caller.subject.until(lambda: consumer.has_arrived)
