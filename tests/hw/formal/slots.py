"""Proof of the unpacker: which item is in which slot of which word."""

from __future__ import annotations

from types import ModuleType

from amaranth.hdl import Elaboratable, Module, Signal

from penstock.hw.kernel.slots import Slots
from tests.hw.formal.inside import Inside
from tests.hw.formal.proof import Claim, Mutation, Proof
from tests.hw.formal.properties import Assert
from tests.hw.formal.streams import drain, feed, moves


class _Slots(Slots):
    """Four of them in a word, each with an item that leaves a bit of it unused."""

    @property
    def bits(self) -> int:
        return 4


_SLOTS = _Slots(item_bits=3, word_bits=16)


class UnpackerProof(Elaboratable):
    """An unpacker with any runs and any words."""

    def __init__(self, module: ModuleType) -> None:
        self.unpacker = module.Unpacker(_SLOTS, _SLOTS.item_bits)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        unpacker, inside = self.unpacker, Inside.of(self.unpacker)
        m.submodules.unpacker = inside.fragment
        feed(m, unpacker.i_run)
        feed(m, unpacker.i)
        drain(m, unpacker.o)
        slot, left = Signal(2), Signal(32)
        # The item that is due, if its word is there and there is a place for it.
        free = ~unpacker.o.valid | unpacker.o.ready
        gives = (left != 0) & unpacker.i.valid & free
        with m.If(moves(unpacker.i_run)):
            m.d.sync += [
                slot.eq(unpacker.i_run.payload.first),
                left.eq(unpacker.i_run.payload.count),
            ]
        with m.Elif(gives):
            m.d.sync += [slot.eq(slot + 1), left.eq(left - 1)]
        waits, gave, item = Signal(), Signal(), Signal(_SLOTS.item_bits)
        m.d.sync += [
            gave.eq(gives),
            waits.eq(unpacker.o.valid & ~unpacker.o.ready),
            item.eq(unpacker.i.payload.word_select(slot, _SLOTS.bits)),
        ]
        m.d.comb += [
            Assert(unpacker.i_run.ready == (left == 0)),
            Assert(unpacker.o.valid == (gave | waits)),
            Assert(~gave | (unpacker.o.payload == item)),
            # A word goes with its last slot, or with the last item of the run.
            Assert(unpacker.i.ready == (gives & ((slot == 3) | (left == 1)))),
            Assert(unpacker.o_idle == ((left == 0) & ~unpacker.o.valid)),
            Assert((inside["left"] == left) & (inside["index"] == slot)),
            Assert((left == 0) | (inside["is_last"] == (slot == 3))),
            Assert((inside["some"] == (left != 0)) & (inside["one"] == (left == 1))),
        ]
        return m


PROOFS = (
    Proof(
        name="unpacker",
        module="penstock.hw.kernel.slots",
        build=UnpackerProof,
        size="4 slots of 4 bits, items of 3",
        depth=8,
        inductive=True,
        claims=(
            Claim(
                "The items of a run are those of its slots, in order, from the first slot of the "
                "next word on, and as many as the run says.",
                Mutation("low = slot * slots.bits", "low = slot * slots.item_bits"),
            ),
            Claim(
                "A word is dropped with its last slot or with the last item of a run, never "
                "before.",
                Mutation("is_last | one", "is_last"),
            ),
            Claim(
                "An item is held, unchanged, until it is taken, and costs one cycle.",
                Mutation("free = ~self.o.valid | self.o.ready", "free = ~self.o.valid"),
            ),
        ),
    ),
)
