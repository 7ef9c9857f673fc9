"""Streams in proofs: inputs offer any items by the rules; outputs must keep the rules."""

from __future__ import annotations

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..kernel.axi import BURST, WRITTEN
from .properties import AnySeq, Assert, Assume

#: Width of a memory word in proofs: the parts work alike with any width.
WORD_BITS = 2

#: Ports with such words, see :mod:`penstock.hw.kernel.axi`.
READ_PORT = wiring.Signature(
    {
        "burst": Out(stream.Signature(BURST)),
        "word": In(stream.Signature(data.StructLayout({"data": WORD_BITS, "id": 1, "error": 1}))),
    }
)
WRITE_PORT = wiring.Signature(
    {
        "burst": Out(stream.Signature(BURST)),
        "word": Out(stream.Signature(data.StructLayout({"data": WORD_BITS, "last": 1}))),
        "done": In(stream.Signature(WRITTEN)),
    }
)


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
