"""Cells of any build, from the few that were counted.

Units are all alike, and so are blocks and banks: cells grow by the same number for each. The model
is a straight line through two builds of the join kernel, and two such lines for the window kernel,
and what memory ports of each width take beside them. Builds that took no part say how far it is
off.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial

from bench.boards.counts import KEY_BITS, NARROW_BITS, PORT_BITS, TESTS, Counts
from penstock.hw.cells import Cells
from penstock.hw.window.kernel.config import NUMBER_BITS
from penstock.hw.window.memories import bank_rams, bank_urams

#: Blocks of the join kernels that the line goes through, and width of their ports: they have one
#: lane for results, as large kernels have lanes that blocks share.
JOIN_FIT, JOIN_PORT = (2, 4), 64
#: Blocks of the kernels that tell what other ports take beside that line: as many as lanes, each of
#: which is then in use.
JOIN_PORTS = {128: 2, 256: 4, 512: 8}
#: Blocks and port width of one that it is tested with.
JOIN_TEST = (8, 128)

#: Slots of a bank, and banks, of the window kernels that say what a bank takes, and of those that
#: say what twice the slots take. Results leave eight banks at a time: with fewer banks, each takes
#: more.
LEAST_BANKS = 8
WINDOW_BANKS = ((1024, 8), (2048, 16))
WINDOW_SLOTS = ((1024, 2), (4096, 2))
#: Widths of ports beside :data:`~.counts.PORT_BITS`, which the first of the latter tells about.
WINDOW_PORTS = (64, 128, 256)
#: Slots and banks of those that it is tested with.
WINDOW_TEST = ((1024, 16), (512, 8))

#: Relative error of LUTs and flip-flops that the tests allow, and block RAMs that the join kernel
#: may be off: one of its memories grows in steps. Those of the window kernel must be exact.
TOLERANCE = 0.03
RAMS_OFF = 2

_TUPLE_BITS = TESTS * KEY_BITS + NUMBER_BITS


@dataclass(frozen=True)
class JoinSizes:
    """Cells of a join kernel by its blocks: ``base + each * blocks``."""

    base: dict[str, float]
    each: dict[str, float]

    @staticmethod
    def fit(counts: Counts, port_bits: int, key_bits: int = KEY_BITS) -> JoinSizes:
        """The line through two kernels, and what ports of this width take beside it.

        That is counted for codes of :data:`~.counts.KEY_BITS` bits only.
        """
        low, high = (counts.join(blocks, key_bits, JOIN_PORT) for blocks in JOIN_FIT)
        each = _scaled(_less(high, low), 1 / (JOIN_FIT[1] - JOIN_FIT[0]))
        base = {name: getattr(low, name) - each[name] * JOIN_FIT[0] for name in each}
        if port_bits != JOIN_PORT:
            blocks = JOIN_PORTS[port_bits]
            narrow = JoinSizes.fit(counts, JOIN_PORT).cells(blocks)
            ports = _less(counts.join(blocks, KEY_BITS, port_bits), narrow)
            base = {name: base[name] + ports[name] for name in base}
        return JoinSizes(base, each)

    def cells(self, blocks: int) -> Cells:
        """Cells of a kernel."""
        return _rounded({name: self.base[name] + self.each[name] * blocks for name in self.base})


@dataclass(frozen=True)
class WindowSizes:
    """Cells of a window kernel by banks and by the doublings of their slots beyond 1024.

    Its block RAMs are those of the queues, which follow from their widths, and a constant.
    """

    base: dict[str, float]
    each: dict[str, float]
    doubling: dict[str, float]

    @staticmethod
    def fit(counts: Counts, port_bits: int) -> WindowSizes:
        """The lines through four kernels, and what ports of this width take less."""
        few, many = (counts.window(slots * banks, banks) for slots, banks in WINDOW_BANKS)
        flat, deep = (counts.window(slots * banks, banks) for slots, banks in WINDOW_SLOTS)
        doubling = _scaled(_less(deep, flat), 1 / 2)
        between = WINDOW_BANKS[1][1] - WINDOW_BANKS[0][1]
        each = {name: (more - doubling[name]) / between for name, more in _less(many, few).items()}
        base = {name: getattr(few, name) - WINDOW_BANKS[0][1] * each[name] for name in each}
        base["bram"] = flat.bram - 2 * WINDOW_SLOTS[0][1] * queue_rams(WINDOW_SLOTS[0][0])
        if port_bits != PORT_BITS:
            slots, banks = WINDOW_SLOTS[0]
            ports = _less(counts.window(slots * banks, banks, port_bits), flat)
            base = {name: base[name] + ports[name] for name in base}
        return WindowSizes(base, each, doubling)

    def cells(self, slots: int, banks: int, *, in_uram: bool = False) -> Cells:
        """Cells of a kernel whose banks have so many slots.

        With queues in UltraRAM each bank has registers for its output, which are part of the block
        once the vendor's tools have placed them, and are not counted.
        """
        deeper = slots.bit_length() - 11
        found = {
            name: self.base[name] + self.each[name] * banks + self.doubling[name] * deeper
            for name in self.base
        }
        found["bram"] = self.base["bram"] + 2 * banks * queue_rams(slots) * (not in_uram)
        return _rounded(found)


def queue_rams(slots: int) -> float:
    """Block RAMs of a bank, in halves: keys of a tuple, and its number."""
    return bank_rams(_TUPLE_BITS, slots)


def queue_urams(slots: int) -> int:
    """UltraRAMs of a bank."""
    return bank_urams(_TUPLE_BITS, slots)


def builds() -> list[Callable[[Counts], Cells]]:
    """All builds that are counted, those first that take longest."""
    windows = [(slots, banks, PORT_BITS) for slots, banks in {*WINDOW_BANKS, *WINDOW_TEST}]
    windows += [(slots, banks, PORT_BITS) for slots, banks in WINDOW_SLOTS]
    windows += [(*WINDOW_SLOTS[0], bits) for bits in WINDOW_PORTS]
    windows.sort(key=lambda build: -build[0] * build[1])
    joins = [(JOIN_TEST[0], KEY_BITS, JOIN_TEST[1])]
    joins += [(blocks, KEY_BITS, bits) for bits, blocks in JOIN_PORTS.items()]
    joins += [(blocks, bits, JOIN_PORT) for bits in (KEY_BITS, NARROW_BITS) for blocks in JOIN_FIT]
    joins.sort(key=lambda build: -build[0])
    return [
        *(partial(Counts.join, blocks=b, key_bits=k, port_bits=p) for b, k, p in joins),
        *(partial(Counts.window, rows=s * b, banks=b, port_bits=p) for s, b, p in windows),
    ]


def errors(counts: Counts) -> dict[str, dict[str, float]]:
    """How far the models are off builds that they were not fitted to, by build and kind of cell.

    Relative for LUTs and flip-flops, absolute for block RAMs.
    """
    blocks, bits = JOIN_TEST
    join, window = JoinSizes.fit(counts, bits), WindowSizes.fit(counts, PORT_BITS)
    counted = counts.join(blocks, KEY_BITS, bits)
    found = {f"join, {blocks} blocks, ports of {bits} bits": (join.cells(blocks), counted)}
    for slots, banks in WINDOW_TEST:
        counted = counts.window(slots * banks, banks)
        found[f"window, {banks} banks of {slots}"] = window.cells(slots, banks), counted
    return {
        name: {
            "lut": model.lut / counted.lut - 1,
            "ff": model.ff / counted.ff - 1,
            "bram": model.bram - counted.bram,
        }
        for name, (model, counted) in found.items()
    }


def _less(one: Cells, other: Cells) -> dict[str, float]:
    return {f.name: getattr(one, f.name) - getattr(other, f.name) for f in fields(Cells)}


def _scaled(values: dict[str, float], factor: float) -> dict[str, float]:
    return {name: value * factor for name, value in values.items()}


def _rounded(values: dict[str, float]) -> Cells:
    return Cells(**{name: round(value) for name, value in values.items()})
