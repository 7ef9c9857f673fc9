"""Proofs of the register file: its bus, the arguments, and the ap_ctrl_hs protocol."""

from __future__ import annotations

from types import ModuleType

from amaranth.hdl import Cat, Elaboratable, Module, Signal, Value
from amaranth.lib.wiring import In

from penstock.hw.join.config import JoinConfig
from penstock.hw.join.kernel.config import KernelConfig
from penstock.hw.join.kernel.describe import PASS_COUNT, describe
from penstock.hw.kernel.control import LITE
from penstock.hw.kernel.registers import CTRL, RANGE_BYTES
from tests.hw.formal.proof import Claim, Mutation, Proof
from tests.hw.formal.properties import AnySeq, Assert

_REGISTERS = describe(KernelConfig.fit(JoinConfig(units=2, tests=1))).registers
_CTRL, _PASS_COUNT = (_REGISTERS.offset(register) >> 2 for register in (CTRL, PASS_COUNT))

#: The last word of the address range, which has no register.
_NOTHING = RANGE_BYTES - 4

_START, _DONE, _RESTART = 0, 1, 7


class RegistersProof(Elaboratable):
    """The register file with a master that may do anything, even break the rules of AXI."""

    def __init__(self, module: ModuleType) -> None:
        self.file = module.RegisterFile(_REGISTERS)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.file = file = self.file
        for name, member in LITE.items():
            if member.flow == In:
                signal = getattr(file.bus, name)
                m.d.comb += signal.eq(AnySeq(len(signal)))
        m.d.comb += [
            file.i_done.eq(AnySeq(1)),
            file.i_idle.eq(AnySeq(1)),
            file.status("status").eq(AnySeq(32)),
        ]
        self.check(m)
        return m

    def check(self, m: Module) -> None:
        """Add the assertions."""
        raise NotImplementedError

    def taken(self, channel: str) -> Value:
        """A handshake on a channel."""
        bus = self.file.bus
        return getattr(bus, f"{channel}VALID") & getattr(bus, f"{channel}READY")

    def reads(self, m: Module) -> tuple[Signal, Signal]:
        """The read that is answered after this cycle: whether there is one, and its word."""
        asked, word = Signal(name="spec_asked"), Signal(len(self.file.bus.ARADDR) - 2)
        m.d.sync += asked.eq(self.taken("AR"))
        m.d.sync += word.eq(self.file.bus.ARADDR[2:])
        hits = Cat(word == place for place in self.file.places)
        known = Signal()
        m.d.sync += known.eq(1)
        m.d.comb += Assert(self.file.asked == asked)
        m.d.comb += Assert(~known | (self.file.read_hits == hits))
        return asked, word

    def writes(self, m: Module) -> tuple[Signal, Signal, Signal, Signal]:
        """The write that takes effect in this cycle: whether there is one, word, data, strobes.

        Address and data are kept as they were taken; the write is done in the cycle after both are
        there, and the answer to the one before is out of the way.
        """
        bus, file = self.file.bus, self.file
        names = ("both", "aw", "w", "written")
        both, addressed, filled, written = (Signal(name=f"spec_{name}") for name in names)
        word, value, strobe = Signal(len(bus.AWADDR) - 2), Signal(32), Signal(4)
        with m.If(self.taken("AW")):
            m.d.sync += [addressed.eq(1), word.eq(bus.AWADDR[2:])]
        with m.If(self.taken("W")):
            m.d.sync += [filled.eq(1), value.eq(bus.WDATA), strobe.eq(bus.WSTRB)]
        m.d.comb += both.eq(addressed & filled & ~written & ~bus.BVALID)
        m.d.sync += written.eq(both)
        with m.If(both):
            m.d.sync += [addressed.eq(0), filled.eq(0)]
        m.d.comb += [
            Assert((~addressed & file.awake) == bus.AWREADY),
            Assert((~filled & file.awake) == bus.WREADY),
            Assert(file.written == written),
            Assert((file.address[2:] == word) & (file.value == value) & (file.strobe == strobe)),
        ]
        hits = Cat(written & (word == place) for place in file.places)
        m.d.comb += Assert(file.write_hits == hits)
        return written, word, value, strobe


class Bus(RegistersProof):
    """Answers: one for each access, held until they are taken."""

    def check(self, m: Module) -> None:
        bus = self.file.bus
        written, *_ = self.writes(m)
        asked, _ = self.reads(m)
        for channel, cause, payload in (
            ("B", written, (bus.BRESP,)),
            ("R", asked, (bus.RDATA, bus.RRESP)),
        ):
            valid, ready = getattr(bus, f"{channel}VALID"), getattr(bus, f"{channel}READY")
            owed = Signal(name=f"owed_{channel}")
            with m.If(cause):
                m.d.sync += owed.eq(1)
            with m.Elif(ready):
                m.d.sync += owed.eq(0)
            m.d.comb += Assert(valid == owed)
            stalled = Signal(name=f"stalled_{channel}")
            m.d.sync += stalled.eq(valid & ~ready)
            for part in payload:
                before = Signal.like(part, name=f"before_{channel}_{part.name}")
                m.d.sync += before.eq(part)
                with m.If(stalled):
                    m.d.comb += Assert(valid & (part == before))
        m.d.comb += [Assert(bus.BRESP == 0), Assert(bus.RRESP == 0)]


class Arguments(RegistersProof):
    """An argument is its bytes as they were written, and reads as that."""

    def check(self, m: Module) -> None:
        bus, argument = self.file.bus, self.file.o_arguments.pass_count
        written, word, value, strobe = self.writes(m)
        kept = Signal(32)
        with m.If(written & (word == _PASS_COUNT)):
            for byte in range(4):
                with m.If(strobe[byte]):
                    m.d.sync += kept.word_select(byte, 8).eq(value.word_select(byte, 8))
        m.d.comb += Assert(argument == kept)
        asked, place = self.reads(m)
        reads, answer = Signal(), Signal(32)
        m.d.sync += [reads.eq(asked & (place == _PASS_COUNT)), answer.eq(kept)]
        with m.If(reads):
            m.d.comb += Assert(answer == bus.RDATA)
        nothing = Signal()
        m.d.sync += nothing.eq(asked & (place == _NOTHING >> 2))
        with m.If(nothing):
            m.d.comb += Assert(bus.RDATA == 0)


class Control(RegistersProof):
    """ap_start, ap_done and auto_restart."""

    def check(self, m: Module) -> None:
        file, bus = self.file, self.file.bus
        written, word, value, strobe = self.writes(m)
        start, done, restart = (Signal(name=f"spec_{name}") for name in ("start", "done", "again"))
        controls = written & (word == _CTRL) & strobe[0]
        asked, place = self.reads(m)
        reads = asked & (place == _CTRL)
        with m.If(controls):
            m.d.sync += restart.eq(value[_RESTART])
        with m.If(file.i_done):
            m.d.sync += start.eq(restart)
        with m.Elif(controls & value[_START]):
            m.d.sync += start.eq(1)
        with m.If(file.i_done):
            m.d.sync += done.eq(1)
        with m.Elif(reads):
            m.d.sync += done.eq(0)
        m.d.comb += [
            Assert(file.o_start == start),
            Assert((file.done == done) & (file.ready == done) & (file.restart == restart)),
        ]
        answered, answer = Signal(), Signal(32)
        m.d.sync += answered.eq(reads)
        m.d.sync += answer.eq(
            (start << _START)
            | (done << _DONE)
            | (file.i_idle << 2)
            | (done << 3)
            | (restart << _RESTART)
        )
        with m.If(answered):
            m.d.comb += Assert(answer == bus.RDATA)


def _proof(name: str, build: type[RegistersProof], claims: tuple[Claim, ...]) -> Proof:
    return Proof(
        name=f"register file, {name}",
        module="penstock.hw.kernel.control",
        build=build,
        size="1 band test",
        depth=8,
        inductive=True,
        claims=claims,
    )


PROOFS = (
    _proof(
        "bus",
        Bus,
        (
            Claim(
                "Each write, its address and data in any order, and each read gets one answer, "
                "which is OKAY, and no answer comes without an access.",
                Mutation(
                    "both.eq(addressed & filled & ~written & ~bus.BVALID)", "both.eq(addressed)"
                ),
            ),
            Claim(
                "An answer is held, unchanged, until the master takes it, whatever else the "
                "master does.",
                Mutation("bus.ARREADY.eq(self.awake & ~read & ~bus.RVALID)", "bus.ARREADY.eq(1)"),
            ),
        ),
    ),
    _proof(
        "arguments",
        Arguments,
        (
            Claim(
                "A write changes exactly the bytes of the argument whose strobes are set, and of "
                "no other argument.",
                Mutation("m.If(hit & strobe[byte])", "m.If(hit & strobe.any())"),
            ),
            Claim(
                "An argument reads as what was written, and an address without a register as 0.",
                Mutation("bus.ARADDR[2:] == place", "bus.ARADDR[2:8] == place"),
            ),
        ),
    ),
    _proof(
        "control",
        Control,
        (
            Claim(
                "ap_start is set by writing a 1 and stays until the task is done; then it is "
                "auto_restart.",
                Mutation(
                    "[done.eq(1), ready.eq(1), self.o_start.eq(restart)]",
                    "[done.eq(1), ready.eq(1), self.o_start.eq(0)]",
                ),
            ),
            Claim(
                "ap_done and ap_ready are set when a task is done and cleared by a read of CTRL "
                "alone; a task that ends in the cycle of a read is not missed.",
                Mutation(
                    "m.If(read & self.read_hits[_CTRL])",
                    "m.If(read)",
                ),
            ),
        ),
    ),
)
