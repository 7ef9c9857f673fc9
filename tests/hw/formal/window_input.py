"""Proofs of the window join's input layer: what waits, what is dropped, and which came first."""

from __future__ import annotations

from types import ModuleType

from amaranth.hdl import Elaboratable, Module, Signal

from penstock.hw.window.config import WindowConfig
from tests.hw.formal.proof import Claim, Mutation, Proof
from tests.hw.formal.properties import AnySeq, Assert

_CONFIG = WindowConfig(depth=2, key_bits=1, payload_a_bits=1, payload_b_bits=1)
_DEPTH = 10


class InputProof(Elaboratable):
    """An input layer beside a place per side, and which place was filled first."""

    def __init__(self, module: ModuleType) -> None:
        self.layer = module.InputLayer(_CONFIG)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.layer = layer = self.layer
        m.d.comb += layer.shed.eq(AnySeq(1))
        waits, placed, stays = [], [], []
        for side, (i, o) in enumerate(((layer.i_a, layer.o_a), (layer.i_b, layer.o_b))):
            m.d.comb += [
                i.valid.eq(AnySeq(1)),
                i.payload.as_value().eq(AnySeq(2)),
                o.ready.eq(AnySeq(1)),
            ]
            waiting, item = Signal(name=f"waiting_{side}"), Signal(2, name=f"item_{side}")
            taken = i.valid & i.ready
            room = ~waiting | o.ready
            with m.If(taken & room):
                m.d.sync += [waiting.eq(1), item.eq(i.payload)]
            with m.Elif(o.ready):
                m.d.sync += waiting.eq(0)
            m.d.comb += [
                Assert(o.valid == waiting),
                Assert(~waiting | (o.payload.as_value() == item)),
                Assert(i.ready == (layer.shed | room)),
                Assert(layer.o_dropped[side] == (taken & ~room)),
            ]
            waits.append(waiting)
            placed.append(taken & room)
            stays.append(waiting & ~o.ready)
        # Whether that of B was there when that of A came; not if both came at once.
        b_first = Signal()
        with m.If(placed[0]):
            m.d.sync += b_first.eq(stays[1])
        with m.Elif(placed[1]):
            m.d.sync += b_first.eq(0)
        with m.If(waits[0] & waits[1]):
            m.d.comb += Assert(layer.o_b_first == b_first)
        return m


PROOFS = (
    Proof(
        name="window join, input layer",
        module="penstock.hw.window.operator",
        build=InputProof,
        size="tuples of 2 bits",
        depth=_DEPTH,
        inductive=True,
        claims=(
            Claim(
                "A tuple that was taken waits, unchanged, until the match layer takes it.",
                Mutation("with m.If(free):", "with m.If(free | i.valid):"),
            ),
            Claim(
                "A tuple is dropped exactly when it was taken while its place was occupied, and "
                "only while shed is set; then the input is always ready.",
                Mutation("i.valid & self.shed & ~free", "i.valid & ~free"),
            ),
            Claim(
                "Of two tuples that wait, that of B counts as the first exactly when it was taken "
                "in an earlier cycle.",
                Mutation("with m.Elif(stores[0]):", "with m.Elif(stores[0] & ~self.o_b.valid):"),
            ),
        ),
    ),
)
