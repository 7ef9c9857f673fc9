"""Proof of a result lane: the records of its blocks, each once, and turns between the blocks."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

from amaranth.hdl import Cat, Const, Elaboratable, Module, Signal, Value

from penstock.hw.join.config import JoinConfig
from penstock.hw.join.kernel.config import KernelConfig
from tests.hw.formal.inside import Inside, Items
from tests.hw.formal.proof import Claim, Mutation, Proof
from tests.hw.formal.properties import AnyConst, AnySeq, Assert
from tests.hw.formal.streams import feed, moves

# One block more than there are lanes: the first lane has two.
_CONFIG = replace(KernelConfig.fit(JoinConfig(units=9, units_per_block=1, tests=1)), lane_records=4)

_COUNT = 4


class LaneProof(Elaboratable):
    """A lane of two blocks that offer records at any time."""

    def __init__(self, module: ModuleType) -> None:
        self.lane = module.Lane(_CONFIG, 0)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        lane, inside = self.lane, Inside.of(self.lane)
        m.submodules.lane = inside.fragment
        bits = _CONFIG.join.ordinal_bits
        for port in lane.i:
            # A mask that is not 0, and two bits of an ordinal: more only keep the solver busy.
            mask = len(port.payload.mask)
            feed(m, port, Cat(AnySeq(2), Const(0, bits - 2), Const(-1, mask)))
        m.d.comb += lane.i_take.eq(AnySeq(1))

        some, out = lane.o_some, lane.o_record
        name: Value = out[bits : bits + _CONFIG.member_bits]
        number = Signal(_COUNT)
        m.d.comb += number.eq(AnyConst(_COUNT))
        m.d.comb += [Assert(some | (out == 0)), Assert(~some | (out[32:] != 0))]
        items = Items(m, inside.part("fifo"), _CONFIG.lane_records)
        queued = [items[place] for place in range(_CONFIG.lane_records)]
        for place, item in enumerate(queued):
            # Masks are not 0, and ordinals have two bits.
            sound = (item[bits + _CONFIG.member_bits :] != 0) & ~item[2:bits].any()
            m.d.comb += Assert((items.level <= place) | sound)
        took = [moves(port) for port in lane.i]
        for member, port in enumerate(lane.i):
            came, went = (
                Signal(_COUNT, name=f"came_{member}"),
                Signal(_COUNT, name=f"went_{member}"),
            )
            kept = Signal(2, name=f"kept_{member}")
            leaves = some & lane.i_take & (name == member)
            m.d.sync += [came.eq(came + took[member]), went.eq(went + leaves)]
            with m.If(took[member] & (came == number)):
                m.d.sync += kept.eq(port.payload.ordinal)
            with m.If(some & (name == member)):
                m.d.comb += Assert(came != went)
                m.d.comb += Assert((went != number) | (out[:bits] == kept))

            # Records of this block in the queue: as many as came and did not go, in order.
            due: Value = went
            for place, item in enumerate(queued):
                mine = (items.level > place) & (item[bits : bits + _CONFIG.member_bits] == member)
                m.d.comb += Assert(~mine | (due[:_COUNT] != number) | (item[:2] == kept))
                due = due + mine
            m.d.comb += Assert(due[:_COUNT] == came)

            other = 1 - member
            passed_over = Signal(name=f"passed_over_{member}")
            with m.If(took[member]):
                m.d.sync += passed_over.eq(0)
            with m.Elif(port.valid & took[other]):
                m.d.sync += passed_over.eq(1)
            m.d.comb += [
                Assert(~(passed_over & took[other])),
                Assert(~passed_over | (port.valid & (inside["latest"] == other))),
            ]
        m.d.comb += Assert(~(took[0] & took[1]))
        return m


PROOFS = (
    Proof(
        name="result lane",
        module="penstock.hw.join.kernel.lanes",
        build=LaneProof,
        size="2 blocks",
        depth=7,
        inductive=True,
        slow=True,
        claims=(
            Claim(
                "Each record of a block leaves once, in the order of the block, with the block's "
                "number; a lane without a record shows 0.",
                Mutation("Const(member, self.config", "Const(0, self.config"),
            ),
            Claim(
                "A block that waits is passed over once at most.",
                Mutation("m.d.sync += latest.eq(member)", "m.d.sync += latest.eq(0)"),
            ),
        ),
        constants={"RECORD_BITS": 34},
    ),
)
