"""Proofs of the window join's queues and match layer: each pair is found exactly once.

A tuple's payload is one bit, a mark that may be set on any of them. If the marked pairs that are
found are as many as those that are expected whatever is marked, then the pairs are the same.
"""

from __future__ import annotations

from functools import partial
from types import ModuleType

from amaranth.hdl import Elaboratable, Module, Signal, Value
from amaranth.lib import stream

from ..window.config import WindowConfig
from ..window.layout import Side, State
from .proof import Claim, Mutation, Proof
from .properties import AnyConst, AnySeq, Assert, Assume
from .streams import feed, moves


def _config(banks: int, *, parallel: bool = True) -> WindowConfig:
    return WindowConfig(
        depth=2 * banks,
        banks=banks,
        key_bits=1,
        payload_a_bits=1,
        payload_b_bits=1,
        parallel=parallel,
    )


class _Latest:
    """The latest tuples of a side, the newest first, two bits each."""

    def __init__(self, m: Module, name: str, size: int) -> None:
        self._m = m
        self._items = [Signal(2, name=f"{name}_{age}") for age in range(size)]
        self._count = Signal(range(size + 1), name=f"{name}_count")

    def push(self, item: Value) -> None:
        """Remember a tuple; call it under the condition for it."""
        for old, new in zip(self._items, [item, *self._items[:-1]], strict=True):
            self._m.d.sync += old.eq(new)
        with self._m.If(self._count < len(self._items)):
            self._m.d.sync += self._count.eq(self._count + 1)

    def window(self, rows: Value, newer: int = 0) -> list[tuple[Value, Value]]:
        """Tuples of a window of so many rows, of which some are newer than all here: whether each
        belongs to it, and the tuple."""
        return [
            ((self._count > age) & (rows > age + newer), item)
            for age, item in enumerate(self._items)
        ]


class QueueProof(Elaboratable):
    """A queue beside the latest tuples; writes spare the row that a scan is still to read."""

    def __init__(self, module: ModuleType, config: WindowConfig) -> None:
        self.config = config
        self.queue = module.Queue(config, Side.A)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.queue = queue = self.queue
        item, rows = Signal(2), queue.rows
        m.d.comb += [
            queue.i.as_value().eq(item),
            item.eq(AnySeq(2)),
            queue.push.eq(AnySeq(1)),
            queue.start.eq(AnySeq(1)),
            queue.step.eq(AnySeq(1)),
            rows.eq(AnySeq(len(rows))),
            Assume(~queue.push | ~queue.o_first | queue.step),
            # A scan that is under way ends before the next, and newer tuples wait for its end.
            Assume(~queue.start | ~queue.o_left),
        ]
        pushed = Signal()
        with m.If(queue.start):
            m.d.sync += pushed.eq(0)
        with m.Elif(queue.push):
            m.d.sync += pushed.eq(1)
        m.d.comb += Assume(~queue.push | queue.start | ~queue.o_left | ~pushed)

        latest = _Latest(m, "latest", self.config.depth)
        with m.If(queue.push):
            latest.push(item)
        expected, found = Signal(4), Signal(4)
        read = [
            queue.o_mask[bank] & Value.cast(queue.o_tuples[bank])[1]
            for bank in range(self.config.banks)
        ]
        with m.If(queue.start):
            with m.If(queue.push):
                inside = [(rows != 0, item), *latest.window(rows, 1)[:-1]]
                m.d.sync += expected.eq(sum(belongs & mark[1] for belongs, mark in inside))
            with m.Else():
                inside = latest.window(rows)
                m.d.sync += expected.eq(sum(belongs & mark[1] for belongs, mark in inside))
            m.d.sync += found.eq(0)
        with m.Else():
            m.d.sync += found.eq(found + sum(read))
        started, ends = Signal(), Signal()
        with m.If(queue.start):
            m.d.sync += started.eq(1)
        # The last row is at the output in the cycle after it was read.
        m.d.sync += ends.eq(started & ~queue.start & ~queue.o_left)
        with m.If(ends & ~queue.o_left):
            m.d.comb += Assert(found == expected)
        return m


class _Marked:
    """The tuple of a side whose payload is 1; there is one at most."""

    def __init__(self, m: Module, side: Side, port: stream.Interface) -> None:
        name = side.name.lower()
        #: Whether a tuple is taken, whether it is the marked one, and its key.
        self.taken = moves(port)
        self.comes = self.taken & port.payload.payload
        self.now = port.payload.key
        #: Whether it was taken before, its key, and how many came after it.
        self.seen, self.key = Signal(name=f"seen_{name}"), Signal(name=f"key_{name}")
        self.newer = Signal(4, name=f"newer_{name}")
        # Results of a tuple may come before it is taken, but not before it waits.
        m.d.comb += Assume(~(port.valid & port.payload.payload & self.seen))
        with m.If(self.comes):
            m.d.sync += [self.seen.eq(1), self.key.eq(self.now)]
        with m.Elif(self.taken & self.seen):
            m.d.sync += self.newer.eq(self.newer + 1)


class MatchProof(Elaboratable):
    """A match layer with any inputs that keep the rules of a stream, and any stops.

    With ``full`` windows are as large as the queues, keys are equal and nothing stops: fewer cases,
    so that in as much time more cycles are searched.
    """

    def __init__(self, module: ModuleType, config: WindowConfig, *, full: bool = False) -> None:
        self.config = config
        self.full = full
        self.layer = module.MatchLayer(config)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.layer = layer = self.layer
        rows = {Side.A: layer.rows_a, Side.B: layer.rows_b}
        for size in rows.values():
            m.d.comb += size.eq(AnyConst(len(size)))
        m.d.comb += [layer.i_b_first.eq(AnySeq(1)), layer.stop.eq(AnySeq(2))]
        ports = {Side.A: layer.i_a, Side.B: layer.i_b}
        for port in ports.values():
            feed(m, port)

        # A tuple of each side may be marked. It must be found with that of the other side exactly
        # if fewer than ROWS tuples of the earlier one's side came after it.
        expected, found = Signal(), Signal(2)
        watched = {side: _Marked(m, side, ports[side]) for side in Side}
        m.d.comb += Assert(~(watched[Side.A].taken & watched[Side.B].taken))
        for side, new in watched.items():
            old = watched[side.other]
            inside = (old.newer < rows[side.other]) & (old.newer < self.config.depth)
            with m.If(new.comes & old.seen & inside & (new.now == old.key)):
                m.d.sync += expected.eq(1)
        marked = [
            record.mask[bank] & record.probe & record.window[bank]
            for record in (layer.o_record_a, layer.o_record_b)
            for bank in range(self.config.banks)
        ]
        m.d.sync += found.eq(found + sum(marked))
        m.d.comb += [
            Assert(layer.o_write_a == layer.o_record_a.mask.any()),
            Assert(layer.o_write_b == layer.o_record_b.mask.any()),
            Assert(found + sum(marked) <= 1),
        ]
        quiet = (layer.state_a == State.READY) & (layer.state_b == State.READY)
        was_quiet = Signal()
        m.d.sync += was_quiet.eq(quiet)
        with m.If(quiet & was_quiet):
            m.d.comb += Assert(found + sum(marked) == expected)
        self._stops(m)
        if self.full:
            m.d.comb += [Assume(size == self.config.depth) for size in rows.values()]
            m.d.comb += [Assume(port.payload.key == 0) for port in ports.values()]
            m.d.comb += Assume(layer.stop == 0)
        return m

    def _stops(self, m: Module) -> None:
        """Results come two cycles after a row that was read without a stop, and only then."""
        layer = self.layer
        writes = (layer.o_write_a, layer.o_write_b)
        for side, write in enumerate(writes):
            stopped = layer.stop[side]
            for cycle in range(2):
                later = Signal(name=f"stopped_{side}_{cycle}")
                m.d.sync += later.eq(stopped)
                stopped = later
            m.d.comb += Assert(~write | ~stopped)


_QUEUE_CLAIMS = (
    Claim(
        "A scan reads each of the ROWS latest tuples once, that of the starting cycle included, "
        "and no other.",
        Mutation("begin.eq(new_end - count)", "begin.eq(end - count)"),
    ),
    Claim(
        "It still reads a tuple that is overwritten in the cycle of the scan's first row.",
        Mutation("memory.read_port()", "memory.read_port(transparent_for=(write,))"),
    ),
)
_MATCH_CLAIMS = (
    Claim(
        "A tuple joins each of the ROWS tuples of the other side that were taken last before it "
        "once, and no other, whatever stops and whichever came first.",
        Mutation("push | second & unit.o_open", "starts & other.valid"),
    ),
    Claim(
        "The second tuple of a round is written when the first has read its slot.",
        Mutation("self.o_open.eq(~queue.o_first | queue.step)", "self.o_open.eq(1)"),
    ),
    Claim(
        "Results come two cycles after a row that was read without a stop, and only then.",
        Mutation(
            "with m.If(queue.o_left & self.stop):",
            "with m.If(queue.o_left & self.stop & ~queue.o_left):",
        ),
    ),
)


_BOUNDED = {
    "queue": "it would have to relate each row of the memory to the latest tuples while a scan is "
    "under way; 10 cycles overwrite every slot.",
    "match": "it would have to relate the rows of both memories, two scans and the results so far "
    "to the marked tuples; the first match comes in the 5th cycle. With one bank 9 cycles reach a "
    "match with a tuple that took the slot of another, with two banks 13.",
}


def _proof(
    kind: str, banks: int, depth: int, claims: tuple[Claim, ...], *, full: bool = False
) -> Proof:
    config = _config(banks)
    build = partial(QueueProof, config=config)
    if kind == "match":
        build = partial(MatchProof, config=config, full=full)
    windows = ", full windows" if full else ""
    return Proof(
        name=f"window join, {kind}, {banks} bank{'s' * (banks > 1)}{windows}",
        module=f"penstock.hw.window.{kind}",
        build=build,
        size=f"{2 * banks} slots per side, keys and payloads of 1 bit{windows}",
        depth=depth,
        inductive=False,
        bounded_because=_BOUNDED[kind],
        claims=claims,
        slow=kind == "match",
    )


PROOFS = (
    _proof("queue", 1, 10, _QUEUE_CLAIMS),
    _proof("queue", 2, 10, _QUEUE_CLAIMS[:1]),
    _proof("match", 1, 10, _MATCH_CLAIMS),
    _proof("match", 2, 10, _MATCH_CLAIMS[:1]),
    # The 10 cycles of the proof before overwrite no slot that a match can find.
    _proof("match", 2, 13, _MATCH_CLAIMS[1:2], full=True),
)
