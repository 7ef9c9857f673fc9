"""The register file: an AXI4-Lite slave with the ap_ctrl_hs protocol."""

from __future__ import annotations

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .registers import CONTROLS, RANGE_BYTES, RegisterMap

ADDRESS_BITS = (RANGE_BYTES - 1).bit_length()

#: Word addresses of the control registers.
_CTRL, _GIER, _IER, _ISR = range(len(CONTROLS))

#: Signals of the slave: name, direction as the slave sees it, width.
LITE = {
    "AWADDR": In(ADDRESS_BITS),
    "AWVALID": In(1),
    "AWREADY": Out(1),
    "WDATA": In(32),
    "WSTRB": In(4),
    "WVALID": In(1),
    "WREADY": Out(1),
    "BRESP": Out(2),
    "BVALID": Out(1),
    "BREADY": In(1),
    "ARADDR": In(ADDRESS_BITS),
    "ARVALID": In(1),
    "ARREADY": Out(1),
    "RDATA": Out(32),
    "RRESP": Out(2),
    "RVALID": Out(1),
    "RREADY": In(1),
}


class Lite(wiring.PureInterface):
    """Type of an interface with the signals of :data:`LITE`."""

    AWADDR: Signal
    AWVALID: Signal
    AWREADY: Signal
    WDATA: Signal
    WSTRB: Signal
    WVALID: Signal
    WREADY: Signal
    BRESP: Signal
    BVALID: Signal
    BREADY: Signal
    ARADDR: Signal
    ARVALID: Signal
    ARREADY: Signal
    RDATA: Signal
    RRESP: Signal
    RVALID: Signal
    RREADY: Signal


def arguments_layout(registers: RegisterMap) -> data.StructLayout:
    """All arguments of a build."""
    return data.StructLayout({name: register.bits for register, name, _ in registers.arguments})


class RegisterFile(wiring.Component):
    """Control registers and arguments.

    Accepts an address and its data in any order, one access of each kind at a time; answers two
    cycles after, when a write has been done. Addresses without a register read 0 and ignore
    writes. Master stalls hold answers.

    Parameters
    ----------
    registers : RegisterMap
        The build's registers; the first four are those of ap_ctrl_hs.

    Members
    -------
    bus : In
        The AXI4-Lite signals of :data:`LITE`.
    o_arguments : Out
        Arguments, by name.
    o_start : Out(1)
        A task is to run; high until ``i_done``.
    i_done : In(1)
        High for the cycle in which a task ends.
    i_idle : In(1)
        No task is running.
    i_status, ... : In
        What the host may read, for each status register.
    o_interrupt : Out(1)
        The interrupt line.
    """

    bus: Lite
    o_arguments: data.View
    o_start: Signal
    i_done: Signal
    i_idle: Signal
    o_interrupt: Signal

    def __init__(self, registers: RegisterMap) -> None:
        self.registers = registers
        super().__init__(
            {
                "bus": Out(wiring.Signature(LITE)),
                "o_arguments": Out(arguments_layout(registers)),
                "o_start": Out(1),
                "i_done": In(1),
                "i_idle": In(1),
                **{f"i_{name}": In(register.bits) for register, name, _ in registers.statuses},
                "o_interrupt": Out(1),
            }
        )
        #: Word addresses of all registers.
        self.places = [*range(len(CONTROLS))] + [
            (offset >> 2) + word
            for register, _, offset in (*registers.statuses, *registers.arguments)
            for word in range(register.bits // 32)
        ]
        #: Low in reset, which lasts longer inside than outside: nothing is taken in it.
        self.awake = Signal()
        # The read that was taken, the write that is gathered, and bits of CTRL: members, so that
        # proofs can name them.
        self.asked = Signal()
        self.read_hits = Signal(len(self.places))
        self.written = Signal()
        self.write_hits = Signal(len(self.places))
        self.address = Signal(ADDRESS_BITS)
        self.value = Signal(32)
        self.strobe = Signal(4)
        self.done = Signal()
        self.ready = Signal()
        self.restart = Signal()

    def status(self, name: str) -> Signal:
        """The input of a status register."""
        return getattr(self, f"i_{name}")

    def elaborate(self, platform: object) -> Module:
        m = Module()
        bus = self.bus
        m.d.sync += self.awake.eq(1)
        # Which register it is, a bit each, is known a cycle before it counts.
        hits, value, strobe = self.write_hits, self.value, self.strobe
        self._writes(m)
        read = self.asked
        m.d.comb += bus.ARREADY.eq(self.awake & ~read & ~bus.RVALID)
        m.d.sync += [
            read.eq(bus.ARVALID & bus.ARREADY),
            self.read_hits.eq(Cat(bus.ARADDR[2:] == place for place in self.places)),
        ]

        done, ready, restart, enable = self.done, self.ready, self.restart, Signal()
        interrupts, causes = Signal(2), Signal(2)
        control = Signal(32)
        m.d.comb += [
            control.eq(Cat(self.o_start, done, self.i_idle, ready, Const(0, 3), restart)),
            self.o_interrupt.eq(enable & causes.any()),
        ]
        values: list[Value] = [control, enable, interrupts, causes]
        values += [self.status(name) for _, name, _ in self.registers.statuses]
        arguments = [
            self.o_arguments[name][32 * word : 32 * word + 32]
            for register, name, _ in self.registers.arguments
            for word in range(register.bits // 32)
        ]

        toggle = Signal(2)
        with m.If(read & self.read_hits[_CTRL]):
            m.d.sync += [done.eq(0), ready.eq(0)]
        with m.If(hits[_CTRL] & strobe[0]):
            m.d.sync += restart.eq(value[7])
            with m.If(value[0]):
                m.d.sync += self.o_start.eq(1)
        with m.If(hits[_GIER] & strobe[0]):
            m.d.sync += enable.eq(value[0])
        with m.If(hits[_IER] & strobe[0]):
            m.d.sync += interrupts.eq(value)
        with m.If(hits[_ISR] & strobe[0]):
            m.d.comb += toggle.eq(value)
        for hit, argument in zip(hits[len(values) :], arguments, strict=True):
            for byte in range(4):
                with m.If(hit & strobe[byte]):
                    m.d.sync += argument.word_select(byte, 8).eq(value.word_select(byte, 8))
        event = Cat(self.i_done, self.i_done) & interrupts
        m.d.sync += causes.eq((causes ^ toggle) | event)
        with m.If(self.i_done):
            m.d.sync += [done.eq(1), ready.eq(1), self.o_start.eq(restart)]

        with m.If(bus.RREADY):
            m.d.sync += bus.RVALID.eq(0)
        with m.If(read):
            m.d.sync += bus.RVALID.eq(1)
            chosen = (
                Mux(hit, source, 0)
                for hit, source in zip(self.read_hits, values + arguments, strict=True)
            )
            m.d.sync += bus.RDATA.eq(reduce(or_, chosen))
        return m

    def _writes(self, m: Module) -> None:
        """Gather address and data, and find the register that both are for, a cycle after."""
        bus = self.bus
        addressed, filled, both = (
            Signal(name=name) for name in ("addressed", "filled", "write_both")
        )
        address, written = self.address, self.written
        m.d.comb += [
            bus.AWREADY.eq(self.awake & ~addressed),
            bus.WREADY.eq(self.awake & ~filled),
            both.eq(addressed & filled & ~written & ~bus.BVALID),
        ]
        with m.If(bus.AWVALID & bus.AWREADY):
            m.d.sync += [addressed.eq(1), address.eq(bus.AWADDR)]
        with m.If(bus.WVALID & bus.WREADY):
            m.d.sync += [filled.eq(1), self.value.eq(bus.WDATA), self.strobe.eq(bus.WSTRB)]
        m.d.sync += [
            written.eq(both),
            self.write_hits.eq(Cat(both & (address[2:] == place) for place in self.places)),
        ]
        with m.If(both):
            m.d.sync += [addressed.eq(0), filled.eq(0)]
        with m.If(bus.BREADY):
            m.d.sync += bus.BVALID.eq(0)
        with m.If(written):
            m.d.sync += bus.BVALID.eq(1)
