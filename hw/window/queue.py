"""A queue: the latest tuples of one side, in banks of block RAM."""

from __future__ import annotations

from amaranth.hdl import Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from .config import WindowConfig
from .layout import Side, entry_layout


class Queue(wiring.Component):
    """A ring of slots, slot s in bank ``s % banks``, and a scan over the latest of them.

    A scan reads ``banks`` neighbouring slots per cycle, from the oldest tuple of the window to the
    newest, wherever it begins: where that is in the midst of a row, the banks before it read the
    next row. What was read is at the output one cycle later. A tuple that is written in the cycle
    in which a scan reads its slot is not seen: the scan still gets the one that is overwritten.

    Parameters
    ----------
    config : WindowConfig
        The build.
    side : Side
        Whose tuples these are.

    Members
    -------
    i, push : In
        A tuple and whether to write it into the next slot.
    rows : In
        Size of the window; sampled at ``start``. More than ``config.depth`` count as that.
    start : In(1)
        Begin a scan in the next cycle. A tuple that is pushed in this cycle belongs to the window.
    step : In(1)
        Read the next slots of the scan.
    o_left : Out(1)
        Some are left to read.
    o_first : Out(1)
        The scan's first slots are left to read. They alone may have one that the next tuple takes.
    o_last : Out(1)
        At most one step is left.
    o_tuples, o_mask : Out
        What was read in the cycle before, per bank, and whether it belongs to the window.
    """

    i: data.View
    push: Signal
    rows: Signal
    start: Signal
    step: Signal
    o_left: Signal
    o_first: Signal
    o_last: Signal
    o_tuples: data.View
    o_mask: Signal

    def __init__(self, config: WindowConfig, side: Side) -> None:
        self.config = config
        self.layout = entry_layout(config, side)
        super().__init__(
            {
                "i": In(self.layout),
                "push": In(1),
                "rows": In(config.slot_bits + 1),
                "start": In(1),
                "step": In(1),
                "o_left": Out(1),
                "o_first": Out(1),
                "o_last": Out(1),
                "o_tuples": Out(data.ArrayLayout(self.layout, config.banks)),
                "o_mask": Out(config.banks),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        config = self.config
        banks, bank_bits = config.banks, config.bank_bits
        end, filled = Signal(config.slot_bits), Signal(range(config.depth + 1))
        full = filled == config.depth

        # As they are when the tuple of this cycle is in its slot.
        new_end, new_filled = Signal.like(end), Signal.like(filled)
        m.d.comb += [
            new_end.eq(end + self.push),
            new_filled.eq(filled + (self.push & ~full)),
        ]
        m.d.sync += [end.eq(new_end), filled.eq(new_filled)]

        row = Signal(config.slot_bits - bank_bits)
        # Slots that are left to read.
        left = Signal(range(config.depth + 1))
        # Banks whose slots of this step are in the next row, since the scan began in a later bank;
        # the last row's last bank, and whether it is before the one in which the scan began.
        ahead, high, wraps = Signal(banks - 1), Signal(bank_bits), Signal()
        count, begin = Signal.like(filled), Signal.like(end)
        new_high = (new_end - 1)[:bank_bits]
        m.d.comb += [
            count.eq(Mux(self.rows < new_filled, self.rows, new_filled)),
            begin.eq(new_end - count),
            self.o_left.eq(left != 0),
            self.o_last.eq(left <= banks),
        ]
        with m.If(self.start):
            m.d.sync += [
                row.eq(begin[bank_bits:]),
                ahead.eq(Cat(begin[:bank_bits] > bank for bank in range(banks - 1))),
                high.eq(new_high),
                wraps.eq(begin[:bank_bits] > new_high),
                left.eq(count),
                self.o_first.eq(count != 0),
            ]
        with m.Elif(self.step & self.o_left):
            m.d.sync += [
                row.eq(row + 1),
                left.eq(Mux(self.o_last, 0, left - banks)),
                self.o_first.eq(0),
            ]
        if banks == 1:
            self._banks(m, [row], end)
        else:
            # A register, so that no adder is before the memories' addresses.
            next_row = Signal.like(row)
            with m.If(self.start):
                m.d.sync += next_row.eq(begin[bank_bits:] + 1)
            with m.Elif(self.step & self.o_left):
                m.d.sync += next_row.eq(next_row + 1)
            rows = [Mux(ahead[bank], next_row, row) for bank in range(banks - 1)]
            self._banks(m, [*rows, row], end)
        with m.If(self.step & self.o_left):
            m.d.sync += self.o_mask.eq(
                Cat(~self.o_last | self._inside(bank, ahead, high, wraps) for bank in range(banks))
            )
        with m.Else():
            m.d.sync += self.o_mask.eq(0)
        return m

    def _inside(self, bank: int, ahead: Signal, high: Signal, wraps: Signal) -> Value:
        """Whether a bank's slot of the last step belongs to the window."""
        # Linters take a comparison that is always true for a mistake.
        if self.config.banks == 1:
            return Const(1)
        if bank == 0:
            return wraps | ~ahead[0]
        if bank == self.config.banks - 1:
            return wraps | (high >= bank)
        begun, not_over = ~ahead[bank], high >= bank
        return Mux(wraps, begun | not_over, begun & not_over)

    def _banks(self, m: Module, rows: list[Value], end: Signal) -> None:
        config = self.config
        for bank in range(config.banks):
            memory = Memory(shape=self.layout, depth=config.depth // config.banks, init=[])
            m.submodules[f"bank_{bank}"] = memory
            # Not transparent: a row that is read and written at once is the old one.
            write = memory.write_port()
            read = memory.read_port()
            m.d.comb += [
                write.addr.eq(end[config.bank_bits :]),
                write.data.eq(self.i),
                write.en.eq(self.push & (end[: config.bank_bits] == bank)),
                read.addr.eq(rows[bank]),
                self.o_tuples[bank].eq(read.data),
            ]
