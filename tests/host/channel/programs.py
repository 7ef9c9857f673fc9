"""What the other side of a channel does in tests: generators that yield what they wait for."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from penstock.host.channel import Consumer, Message, MessageKind, Producer

Ready = Callable[[], bool]
Program = Callable[[Consumer, Producer], Iterator[Ready]]


def echo(consumer: Consumer, producer: Producer) -> Iterator[Ready]:
    """Send each message back, until CLOSE has been sent back."""
    while not consumer.closed:
        message = yield from _next(consumer)
        content = bytes(message.payload)
        consumer.done(message)
        producer.send(message.kind, content)
        while not producer.pump():
            yield lambda: producer.credits > 0


def hold(consumer: Consumer, producer: Producer) -> Iterator[Ready]:
    """Take all slots and say so; let them go when that is known; then echo."""
    messages = []
    for _ in range(consumer.slots):
        messages.append((yield from _next(consumer)))
    producer.send(MessageKind.CONTROL, b"holds all")
    yield lambda: producer.credits == producer.slots
    for message in messages:
        consumer.done(message)
    yield from echo(consumer, producer)


def pour(consumer: Consumer, producer: Producer) -> Iterator[Ready]:
    """Send numbers as fast as credits allow, until CLOSE comes; then the last one with CLOSE."""
    number = 0
    while not consumer.closed:
        while producer.pump() and not consumer.has_arrived:
            producer.send(MessageKind.ROWS, number.to_bytes(8, "little"))
            number += 1
        if consumer.has_arrived:
            consumer.done((yield from _next(consumer)))
        else:
            yield lambda: consumer.has_arrived or producer.credits > 0
    while not producer.pump():
        yield lambda: producer.credits > 0
    producer.send(MessageKind.CLOSE, number.to_bytes(8, "little"))
    while not producer.pump():
        yield lambda: producer.credits > 0


def _next(consumer: Consumer) -> Generator[Ready, None, Message]:
    """The next message."""
    while (message := consumer.receive()) is None:
        yield lambda: consumer.has_arrived
    return message


PROGRAMS: dict[str, Program] = {"echo": echo, "hold": hold, "pour": pour}
