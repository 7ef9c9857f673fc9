"""Sending that goes on serving arrivals while it waits for credits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.errors import OverloadError
from penstock.host.channel import (
    FOOTER_BYTES,
    Consumer,
    Doorbell,
    MessageKind,
    Producer,
    shm,
)
from tests.host.channel.serving import Advance, advance, send_serving

SLOT = 128
CAPACITY = SLOT - FOOTER_BYTES


@pytest.fixture
def bell() -> Iterator[Doorbell]:
    bell = Doorbell.create()
    yield bell
    bell.close()


def channel(slots: int) -> tuple[Producer, Consumer]:
    ends = shm.create(slots, SLOT)
    try:
        return ends.producer(), ends.consumer()
    finally:
        ends.close()


def test_one_step_sends_serves_or_waits():
    producer, consumer = channel(1)
    served = []

    def serve() -> bool:
        if not arrivals:
            return False
        served.append(arrivals.pop())
        return True

    arrivals = ["first"]
    assert advance(producer, serve) is Advance.SENT  # nothing is pending
    producer.send(MessageKind.ROWS, b"1")
    assert not producer.send(MessageKind.ROWS, b"2")
    assert advance(producer, serve) is Advance.SERVED
    assert advance(producer, serve) is Advance.WAITS
    message = consumer.receive()
    assert message is not None
    consumer.done(message)
    assert advance(producer, serve) is Advance.SENT
    assert served == ["first"]


def test_arrivals_are_served_until_credits_come(bell: Doorbell):
    """The credit comes only from what is served, as in a ring of two that send to each other."""
    producer, consumer = channel(2)
    got = []

    def serve() -> bool:
        message = consumer.receive()
        if message is None:
            return False
        got.append(bytes(message.payload))
        consumer.done(message)
        return True

    payloads = [bytes([number]) * (number * CAPACITY // 2) for number in range(1, 12)]
    for payload in payloads:
        send_serving(
            producer,
            MessageKind.ROWS,
            payload,
            serve=serve,
            arrived=lambda: consumer.has_arrived,
            bell=bell,
            timeout_s=10,
        )
    while serve():
        pass
    assert got == payloads


def test_without_credits_it_is_an_overload(bell: Doorbell):
    producer, _ = channel(1)
    producer.send(MessageKind.ROWS, b"1")
    with pytest.raises(OverloadError, match=r"no credit for 0.05 s.*raise the timeout"):
        send_serving(
            producer,
            MessageKind.ROWS,
            b"2",
            serve=lambda: False,
            arrived=lambda: False,
            bell=bell,
            timeout_s=0.05,
        )
