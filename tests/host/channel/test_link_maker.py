"""Links to processes wherever they are: which way each takes, and how it ends."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from penstock.errors import MissingToolError
from penstock.host.channel import Consumer, Doorbell, MessageKind, ProcessGoneError, Producer
from penstock.host.channel.link_maker import LinkMaker, Whereabouts
from penstock.host.channel.links import Link, ShmLink
from penstock.host.channel.ucx import UcxLink, library

TIMEOUT_S = 30.0


@dataclass
class Side:
    """One of two processes, both of which are this one."""

    bell: Doorbell
    maker: LinkMaker
    link: Link
    producer: Producer
    consumer: Consumer


def maker_at(place: str, stack: ExitStack) -> tuple[Doorbell, LinkMaker]:
    bell = Doorbell.create(is_offered=True)
    stack.callback(bell.close)
    maker = LinkMaker(bell, Whereabouts.of_this_process(place))
    stack.callback(maker.close)
    return bell, maker


@pytest.fixture
def sides(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Side]]:
    """Two that are linked over TCP."""
    monkeypatch.setenv("UCX_TLS", "tcp,self")
    with ExitStack() as stack:
        bells, makers = zip(*(maker_at(place, stack) for place in "ab"), strict=True)
        links = [
            maker.link(Whereabouts.of_this_process(there), f"rank {rank}")
            for maker, there, rank in zip(makers, "ba", (1, 0), strict=True)
        ]
        offers = [link.offer() for link in links]
        ends = [link.connect(offered) for link, offered in zip(links, offers[::-1], strict=True)]
        parts = zip(bells, makers, links, ends, strict=True)
        yield [Side(bell, maker, link, *end) for bell, maker, link, end in parts]


def until(side: Side, other: Side, ready: Callable[[], bool]) -> None:
    """Wait on one side, while the other looks at what it has."""
    deadline = time.monotonic() + TIMEOUT_S
    while not side.bell.wait(ready, 0.001):
        other.bell.wait(lambda: other.consumer.has_arrived, 0.001)
        assert time.monotonic() < deadline


def test_who_shares_the_place_shares_memory() -> None:
    with ExitStack() as stack:
        _, maker = maker_at("a", stack)
        assert isinstance(maker.link(Whereabouts("a", "other", 1), "rank 1"), ShmLink)


def test_elsewhere_is_reached_over_the_network(sides: list[Side]) -> None:
    here, there = sides
    assert isinstance(here.link, UcxLink)
    assert here.producer.send(MessageKind.ROWS, b"across")
    until(there, here, lambda: there.consumer.has_arrived)
    message = there.consumer.receive()
    assert message is not None
    assert bytes(message.payload) == b"across"
    there.consumer.done(message)
    until(here, there, here.link.is_flushed)
    assert here.link.transports == ("tcp",)


def test_an_end_elsewhere_is_seen_and_can_be_forgotten(sides: list[Side]) -> None:
    here, there = sides
    assert here.producer.send(MessageKind.ROWS, b"")  # makes the connection
    until(there, here, lambda: there.consumer.has_arrived)
    assert not here.link.has_ended
    there.maker.close()
    with pytest.raises(ProcessGoneError, match="rank 1 has ended"):
        here.bell.wait(lambda: False, TIMEOUT_S)
    assert here.link.has_ended
    assert here.link.is_flushed(), "there is nobody to wait for"
    here.link.unwatch()
    assert not here.bell.wait(lambda: False, 0.0)


def test_without_the_extra_elsewhere_is_not_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "_loaded", [])
    monkeypatch.setattr(library, "_NAME", "none has been loaded before")
    monkeypatch.setitem(sys.modules, "libucx", None)
    with ExitStack() as stack:
        _, maker = maker_at("a", stack)
        with pytest.raises(MissingToolError, match=r"pip install '\.\[rdma\]'"):
            maker.link(Whereabouts("b", "other", 1), "rank 1")
