"""A queue: the latest tuples of one side, in banks of memory."""

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
    next row. What a step reads is at the output ``1 + config.read_cycles`` cycles later.

    Where the window begins and how many tuples it has is known before a scan starts: both follow
    each tuple that comes, so that no arithmetic is between a start and the first address. Another
    size of the window takes four cycles while nothing is matched.

    No slot is written in a cycle in which it is read for a scan, so it does not matter what the
    memory gives then.

    Parameters
    ----------
    config : WindowConfig
        The build.
    side : Side
        Whose tuples these are.

    Members
    -------
    i, push : In
        A tuple and whether to write it into the next slot. Not while the first slots of a scan are
        left to read.
    rows : In
        Size of the window. More than ``config.depth`` count as that.
    still : In(1)
        The window may take another size: no scan is under way, no tuple comes, and neither does in
        the next cycle if the window is stale.
    o_stale : Out(1)
        The window does not have this size yet. Nothing may start in the next cycle.
    start : In(1)
        Begin a scan in the next cycle. A tuple that is pushed in this cycle belongs to the window.
    step : In(1)
        Read the next slots of the scan.
    o_left : Out(1)
        Some are left to read.
    o_first : Out(1)
        The scan's first slots are left to read. They alone may have one that the next tuple takes.
    o_valid, o_tuples, o_mask : Out
        Whether slots were read, the tuples, per bank, and which of them belong to the window.
    o_busy : Out(1)
        Slots are being read, or are at the output.
    """

    i: data.View
    push: Signal
    rows: Signal
    still: Signal
    o_stale: Signal
    start: Signal
    step: Signal
    o_left: Signal
    o_first: Signal
    o_valid: Signal
    o_tuples: data.View
    o_mask: Signal
    o_busy: Signal

    def __init__(self, config: WindowConfig, side: Side) -> None:
        self.config = config
        self.side = side
        self.layout = entry_layout(config, side)
        super().__init__(
            {
                "i": In(self.layout),
                "push": In(1),
                "rows": In(config.slot_bits + 1),
                "still": In(1),
                "o_stale": Out(1),
                "start": In(1),
                "step": In(1),
                "o_left": Out(1),
                "o_first": Out(1),
                "o_valid": Out(1),
                "o_tuples": Out(data.ArrayLayout(self.layout, config.banks)),
                "o_mask": Out(config.banks),
                "o_busy": Out(1),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        slots = range(self.config.depth + 1)
        # The next slot to write, the window's first one, and how many tuples it has.
        self._end = Signal(self.config.slot_bits)
        self._begin = Signal(self.config.slot_bits)
        self._count = Signal(slots)
        #: The window loses its oldest tuple with each that comes. It has tuples.
        self._slides = Signal(init=1)
        self._some = Signal()
        self._window(m, slots)
        self._write(m)
        self._scan(m)
        return m

    def _window(self, m: Module, slots: range) -> None:
        """Follow the tuples that come, and the size that is asked for."""
        # Whether all slots have a tuple, and tuples that the window may have more.
        full = Signal()
        room = Signal(slots)
        with m.If(self.push):
            m.d.sync += self._end.eq(self._end + 1)
            with m.If(self._end.all()):
                m.d.sync += full.eq(1)
            with m.If(self._slides):
                m.d.sync += self._begin.eq(self._begin + 1)
            with m.Else():
                m.d.sync += [
                    self._count.eq(self._count + 1),
                    self._some.eq(1),
                    room.eq(room - 1),
                    self._slides.eq(room == 1),
                ]

        wanted = Signal(slots)
        size = Signal(slots)
        m.d.comb += wanted.eq(Mux(self.rows[-1], self.config.depth, self.rows))
        filled = Mux(full, self.config.depth, self._end)
        fewer = Signal()
        stale = Signal(init=1)
        m.d.comb += self.o_stale.eq(stale)
        with m.FSM() as machine:
            with m.State("SETTLED"), m.If(self.o_stale & self.still):
                m.d.sync += size.eq(wanted)
                m.next = "COMPARE"
            with m.State("COMPARE"):
                m.d.sync += fewer.eq(size < filled)
                m.next = "COUNT"
            with m.State("COUNT"):
                m.d.sync += [
                    self._count.eq(Mux(fewer, size, filled)),
                    room.eq(Mux(fewer, 0, size - filled)),
                ]
                m.next = "BEGIN"
            with m.State("BEGIN"):
                m.d.sync += [
                    self._begin.eq(self._end - self._count),
                    self._some.eq(self._count != 0),
                    self._slides.eq(room == 0),
                ]
                m.next = "SETTLED"
        follows = self.o_stale & self.still & machine.ongoing("SETTLED")
        # A scan starts two cycles after it is no longer stale at the earliest.
        m.d.sync += stale.eq((wanted != size) | follows | machine.ongoing("COMPARE"))

    def _scan(self, m: Module) -> None:
        config = self.config
        banks, bank_bits = config.banks, config.bank_bits
        count, count_low = self._count[bank_bits:], self._count[:bank_bits]
        begin, begin_low = self._begin[bank_bits:], self._begin[:bank_bits]
        row = Signal.like(begin)
        next_row = Signal.like(begin)
        # Steps that are left behind the first one, and whether there are some.
        left = Signal.like(count)
        more = Signal()
        steps = Signal()
        last = Signal()
        now = Signal.like(begin)
        m.d.comb += [
            self.o_left.eq(self.o_first | more),
            steps.eq(self.step & self.o_left),
            last.eq(Mux(self.o_first, self._count <= banks, left == 1)),
            now.eq(Mux(self.o_first, begin, next_row)),
        ]
        with m.If(self.start):
            m.d.sync += self.o_first.eq(self._some | self.push & ~self._slides)
        with m.Elif(steps):
            m.d.sync += self.o_first.eq(0)
        # No step comes with a start.
        with m.If(steps):
            m.d.sync += [
                more.eq(~last),
                left.eq(Mux(self.o_first, count, left) - ~(self.o_first & count_low.any())),
                row.eq(now),
                next_row.eq(now + 1),
            ]

        # The last row's last bank, and whether it is before the one in which the scan began.
        high = Signal(bank_bits)
        wraps = Signal()
        last_high = (self._end - 1)[:bank_bits]
        # Banks that read the next row, since the scan began in a later bank.
        ahead = Signal(banks - 1)
        with m.If(steps & self.o_first):
            m.d.sync += [
                ahead.eq(Cat(begin_low > bank for bank in range(banks - 1))),
                high.eq(last_high),
                wraps.eq(begin_low > last_high),
            ]
        reads = Signal()
        reads_last = Signal()
        mask = Cat(
            reads & (~reads_last | self._inside(bank, ahead, high, wraps)) for bank in range(banks)
        )
        m.d.sync += [reads.eq(steps), reads_last.eq(last)]
        tuples = [
            self._bank(m, bank, Mux(ahead[bank], next_row, row) if bank < banks - 1 else row)
            for bank in range(banks)
        ]
        valid, busy = reads, reads
        for stage in range(config.read_cycles):
            before, valid = valid, Signal(name=f"valid_{stage}")
            masked, mask = mask, Signal(banks, name=f"mask_{stage}")
            m.d.sync += [valid.eq(before), mask.eq(masked)]
            busy |= valid
            if stage:
                kept = [
                    Signal(self.layout, name=f"tuple_{bank}", reset_less=True)
                    for bank in range(banks)
                ]
                m.d.sync += [new.eq(old) for new, old in zip(kept, tuples, strict=True)]
                tuples = kept
        m.d.comb += [self.o_valid.eq(valid), self.o_mask.eq(mask), self.o_busy.eq(busy)]
        m.d.comb += [self.o_tuples[bank].eq(read) for bank, read in enumerate(tuples)]

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

    def _write(self, m: Module) -> None:
        """A tuple is in its slot two cycles after it was pushed."""
        config = self.config
        self._put = Signal(config.banks)
        self._put_row = Signal(config.slot_bits - config.bank_bits, reset_less=True)
        self._put_item = Signal(self.layout, reset_less=True)
        bank = self._end[: config.bank_bits]
        m.d.sync += [
            self._put.eq(Cat(self.push & (bank == number) for number in range(config.banks))),
            self._put_row.eq(self._end[config.bank_bits :]),
            self._put_item.eq(self.i),
        ]

    def _bank(self, m: Module, bank: int, row: Value) -> data.View:
        """A bank and what it reads."""
        config = self.config
        attributes = {"ram_style": "ultra"} if self._is_uram else {}
        depth = config.depth // config.banks
        memory = Memory(shape=self.layout, depth=depth, init=[], attrs=attributes)
        m.submodules[f"bank_{bank}"] = memory
        write, read = memory.write_port(), memory.read_port()
        m.d.comb += [
            write.addr.eq(self._put_row),
            write.data.eq(self._put_item),
            write.en.eq(self._put[bank]),
            read.addr.eq(row),
        ]
        return read.data

    @property
    def _is_uram(self) -> bool:
        return self.config.memories[self.side.value] == "uram"
