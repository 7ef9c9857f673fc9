"""Streams in proofs: inputs offer any items by the rules; outputs must keep the rules."""

from __future__ import annotations

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import stream

from penstock.hw.kernel.sizes import PortSizes
from tests.hw.formal.properties import AnySeq, Assert, Assume


class NarrowWords(PortSizes):
    """Ports whose words have few bits of data, but addresses like 512: all that widths change."""

    word_bits: int = 2

    def __post_init__(self) -> None:
        """No kernel has such ports."""

    @property
    def word_bytes(self) -> int:
        return 64


def feed(m: Module, port: stream.Interface, item: Value | None = None) -> None:
    """Offer any items at any time, or the one given; an item that waits stays."""
    payload = Value.cast(port.payload)
    offered = AnySeq(len(payload)) if item is None else item
    m.d.comb += [port.valid.eq(AnySeq(1)), payload.eq(offered)]
    waited, same = _waited(m, port)
    m.d.comb += Assume(~waited | (port.valid & same))


def drain(m: Module, port: stream.Interface) -> None:
    """Take items at any time; assert that an item that waits stays."""
    m.d.comb += port.ready.eq(AnySeq(1))
    waited, same = _waited(m, port)
    m.d.comb += Assert(~waited | (port.valid & same))


def moves(port: stream.Interface) -> Value:
    """An item is handed over in this cycle."""
    return port.valid & port.ready


def _waited(m: Module, port: stream.Interface) -> tuple[Signal, Value]:
    """Whether an item was offered in the cycle before and not taken; whether it is the same."""
    payload = Value.cast(port.payload)
    waited, before = Signal(), Signal(len(payload))
    m.d.sync += [waited.eq(port.valid & ~port.ready), before.eq(payload)]
    return waited, payload == before
