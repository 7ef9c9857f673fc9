"""Proofs of the window join's queues and match layer: each pair is found exactly once.

A tuple's payload is one bit, a mark that may be set on any of them. If the marked pairs that are
found are as many as those that are expected whatever is marked, then the pairs are the same.
"""

from __future__ import annotations

from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

from amaranth.hdl import Elaboratable, Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.memory import Memory

from penstock.hw.window import queue
from penstock.hw.window.config import WindowConfig
from penstock.hw.window.layout import Side
from tests.hw.formal.proof import Claim, Mutation, Proof, mutant
from tests.hw.formal.properties import AnyConst, AnySeq, Assert, Assume
from tests.hw.formal.streams import feed, moves


class CarelessMemory(Elaboratable):
    """A memory that gives anything for a slot that is read while it is written.

    Block RAM and UltraRAM differ in what they give then, and tools in what they make of it.
    """

    def __init__(self, *, shape: Any, depth: int, init: list, attrs: dict[str, str]) -> None:
        self._memory = Memory(shape=shape, depth=depth, init=init, attrs=attrs)
        self._write, self._read = self._memory.write_port(), self._memory.read_port()
        self._data = Signal(shape)

    def write_port(self) -> Any:
        return self._write

    def read_port(self) -> Any:
        return SimpleNamespace(addr=self._read.addr, data=self._data)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.memory = self._memory
        both = Signal()
        m.d.sync += both.eq(self._write.en & (self._write.addr == self._read.addr))
        read = Value.cast(self._read.data)
        m.d.comb += Value.cast(self._data).eq(Mux(both, AnySeq(len(read)), read))
        return m


#: The module of queues, with such memories.
_CARELESS = mutant(queue, None)
_CARELESS.__dict__["Memory"] = CarelessMemory


def _config(banks: int, memory: Any = "auto") -> WindowConfig:
    return WindowConfig(
        depth=2 * banks,
        banks=banks,
        key_bits=1,
        payload_a_bits=1,
        payload_b_bits=1,
        memory_a=memory,
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
        item = Signal(2)
        # The size that counts is that of two cycles before.
        before, rows = Signal.like(queue.rows), Signal.like(queue.rows)
        m.d.sync += [before.eq(queue.rows), rows.eq(before)]
        m.d.comb += [
            queue.i.as_value().eq(item),
            item.eq(AnySeq(2)),
            queue.push.eq(AnySeq(1)),
            queue.start.eq(AnySeq(1)),
            queue.step.eq(AnySeq(1)),
            queue.rows.eq(AnySeq(len(rows))),
            Assume(~queue.push | ~queue.o_first),
        ]
        self._is_still(m)
        pushed = Signal()
        with m.If(queue.start):
            m.d.sync += pushed.eq(0)
        with m.Elif(queue.push):
            m.d.sync += pushed.eq(1)
        # Newer tuples than the first one wait for the end of the scan.
        m.d.comb += Assume(~queue.push | queue.start | ~queue.o_left | ~pushed)

        latest = _Latest(m, "latest", self.config.depth)
        with m.If(queue.push):
            latest.push(item)
        wanted = Signal(4)
        with m.If(queue.push):
            inside = [(rows != 0, item), *latest.window(rows, 1)[:-1]]
            m.d.comb += wanted.eq(sum(belongs & mark[1] for belongs, mark in inside))
        with m.Else():
            inside = latest.window(rows)
            m.d.comb += wanted.eq(sum(belongs & mark[1] for belongs, mark in inside))
        self._compare(m, wanted)
        return m

    def _is_still(self, m: Module) -> None:
        """When scans start, and when the window may take another size."""
        queue = self.queue
        calm, left, stale, was_still = Signal(), Signal(), Signal(), Signal()
        m.d.sync += [left.eq(queue.o_left), stale.eq(queue.o_stale), was_still.eq(queue.still)]
        m.d.comb += [
            calm.eq(AnySeq(1)),
            queue.still.eq(calm & stale),
            Assume(~queue.start | (calm & ~stale)),
            Assume(~queue.push | ~queue.still),
            # A scan has ended two cycles before the next, as it does in the match layer.
            Assume(~calm | (~queue.o_left & ~left)),
            Assume(~was_still | calm),
        ]

    def _compare(self, m: Module, wanted: Signal) -> None:
        """Marked tuples that a scan reads are as many as the window has."""
        queue = self.queue
        begins, started = queue.start, Signal()
        # The last row of a scan is at the output when the next starts, or a cycle later.
        for cycle in range(self.config.read_cycles - 1):
            begun, counted = Signal(name=f"begun_{cycle}"), Signal(4, name=f"wanted_{cycle}")
            m.d.sync += [begun.eq(begins), counted.eq(wanted)]
            begins, wanted = begun, counted
        expected, found = Signal(4), Signal(4)
        read = sum(
            queue.o_mask[bank] & Value.cast(queue.o_tuples[bank])[1]
            for bank in range(self.config.banks)
        )
        with m.If(begins):
            m.d.sync += [started.eq(1), expected.eq(wanted), found.eq(0)]
            m.d.comb += Assert(~started | (found + read == expected))
        with m.Else():
            m.d.sync += found.eq(found + read)
        m.d.comb += Assert(queue.o_valid | ~queue.o_mask.any())
        with m.If(started & ~queue.o_left & ~queue.o_busy):
            m.d.comb += Assert(found == expected)


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
        outputs = (layer.o_a, layer.o_b)
        m.d.comb += layer.i_b_first.eq(AnySeq(1))
        m.d.comb += [o.stop.eq(AnySeq(1)) for o in outputs]
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
            o.record.mask[bank] & o.record.probe & o.record.window[bank]
            for o in outputs
            for bank in range(self.config.banks)
        ]
        m.d.sync += found.eq(found + sum(marked))
        m.d.comb += [
            *(Assert(o.write | ~o.record.mask.any()) for o in outputs),
            Assert(found + sum(marked) <= 1),
        ]
        with m.If(layer.o_idle):
            m.d.comb += Assert(found + sum(marked) == expected)
        self._stops(m)
        if self.full:
            m.d.comb += [Assume(size == self.config.depth) for size in rows.values()]
            m.d.comb += [Assume(port.payload.key == 0) for port in ports.values()]
            m.d.comb += [Assume(~o.stop) for o in outputs]
        return m

    def _stops(self, m: Module) -> None:
        """Results come so long after a step of a scan without a stop, and only then."""
        for side, o in enumerate((self.layer.o_a, self.layer.o_b)):
            stopped = o.stop
            for cycle in range(self.config.result_cycles):
                later = Signal(name=f"stopped_{side}_{cycle}")
                m.d.sync += later.eq(stopped)
                stopped = later
            m.d.comb += Assert(~o.write | ~stopped)


_QUEUE_CLAIMS = (
    Claim(
        "A scan reads each of the ROWS latest tuples once, that of the starting cycle included, "
        "and no other.",
        Mutation("self._some | self.push & ~self._slides", "self._some"),
    ),
    Claim(
        "It does so whatever the memory gives for a slot that is read while it is written.",
        Mutation(
            "m.d.sync += [\n            self._put.eq(", "m.d.comb += [\n            self._put.eq("
        ),
    ),
    Claim(
        "A change of ROWS holds from the next cycle on, for tuples from before it, too.",
        Mutation("room.eq(Mux(fewer, 0, size - filled))", "room.eq(0)"),
    ),
)
_MATCH_CLAIMS = (
    Claim(
        "A tuple joins each of the ROWS tuples of the other side that were taken last before it "
        "once, and no other, whatever stops and whichever came first.",
        Mutation("ready |= second & unit.o_open", "ready |= open_"),
    ),
    Claim(
        "The second tuple of a round is written when the first has read its slot, and not in the "
        "same cycle.",
        Mutation("self.o_open.eq(~queue.o_first)", "self.o_open.eq(~queue.o_first | queue.step)"),
    ),
    Claim(
        "Results come `result_cycles` after a step without a stop, and only then.",
        Mutation(
            "with m.If(queue.o_left & self.o.stop):",
            "with m.If(queue.o_left & self.o.stop & ~queue.o_left):",
        ),
    ),
)


_BOUNDED = {
    "queue": "it would have to relate each row of the memory to the latest tuples while a scan is "
    "under way; 14 cycles overwrite every slot.",
    "match": "it would have to relate the rows of both memories, two scans and the results so far "
    "to the marked tuples; the first match comes in the 11th cycle. With one bank 15 cycles reach "
    "a match with a tuple that took the slot of another, with two banks 19.",
}


def _proof(
    kind: str,
    banks: int,
    depth: int,
    claims: tuple[Claim, ...],
    *,
    full: bool = False,
    memory: str = "auto",
) -> Proof:
    config = _config(banks, memory)
    build = partial(QueueProof, config=config)
    constants: dict[str, object] = {"Memory": CarelessMemory}
    if kind == "match":
        build = partial(MatchProof, config=config, full=full)
        constants = {"Queue": _CARELESS.Queue}
    of = ", UltraRAM" if memory == "uram" else ""
    windows = of + ", full windows" * full
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
        constants=constants,
    )


PROOFS = (
    _proof("queue", 1, 14, _QUEUE_CLAIMS),
    _proof("queue", 2, 14, _QUEUE_CLAIMS[:1]),
    _proof("queue", 2, 14, _QUEUE_CLAIMS[1:2], memory="uram"),
    _proof("match", 1, 16, _MATCH_CLAIMS),
    _proof("match", 2, 16, _MATCH_CLAIMS[:1]),
    # The 16 cycles of the proof before overwrite no slot that a match can find.
    _proof("match", 2, 19, _MATCH_CLAIMS[1:2], full=True),
)
