"""Cells of any build, from the few that were counted.

Units are all alike, and so are blocks and banks: cells grow by the same number for each. The model
is a straight line through two builds of the join kernel, and two such lines for the window kernel;
builds that took no part in either say how far it is off.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from bench.boards.counts import KEY_BITS, TESTS, Counts
from penstock.hw.cells import Cells
from penstock.hw.window.kernel.config import NUMBER_BITS
from penstock.hw.window.memories import bank_rams, bank_urams

#: Blocks of the join kernels that the line goes through. Each brings a lane for its results; beyond
#: eight blocks lanes are shared, so that the line has a few per cent too much there.
JOIN_FIT = (2, 4)
#: Blocks of one that it is tested with.
JOIN_TEST = 8

#: Slots of a bank, and banks, of the window kernels that say what a bank takes, and of those that
#: say what twice the slots take. Results leave eight banks at a time: with fewer banks, each takes
#: more.
LEAST_BANKS = 8
WINDOW_BANKS = ((1024, 8), (2048, 16))
WINDOW_SLOTS = ((1024, 2), (4096, 2))
#: The same of those that it is tested with.
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
    def fit(counts: Counts, key_bits: int = KEY_BITS) -> JoinSizes:
        """The line through two kernels."""
        low, high = (counts.join(blocks, key_bits) for blocks in JOIN_FIT)
        each = _scaled(_less(high, low), 1 / (JOIN_FIT[1] - JOIN_FIT[0]))
        base = {name: getattr(low, name) - each[name] * JOIN_FIT[0] for name in each}
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
    def fit(counts: Counts) -> WindowSizes:
        """The lines through four kernels."""
        few, many = (counts.window(slots * banks, banks) for slots, banks in WINDOW_BANKS)
        flat, deep = (counts.window(slots * banks, banks) for slots, banks in WINDOW_SLOTS)
        doubling = _scaled(_less(deep, flat), 1 / 2)
        between = WINDOW_BANKS[1][1] - WINDOW_BANKS[0][1]
        each = {name: (more - doubling[name]) / between for name, more in _less(many, few).items()}
        base = {name: getattr(few, name) - WINDOW_BANKS[0][1] * each[name] for name in each}
        base["bram"] = flat.bram - 2 * WINDOW_SLOTS[0][1] * queue_rams(WINDOW_SLOTS[0][0])
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


def errors(counts: Counts) -> dict[str, dict[str, float]]:
    """How far the models are off builds that they were not fitted to, by build and kind of cell.

    Relative for LUTs and flip-flops, absolute for block RAMs.
    """
    join, window = JoinSizes.fit(counts), WindowSizes.fit(counts)
    found = {f"join, {JOIN_TEST} blocks": (join.cells(JOIN_TEST), counts.join(JOIN_TEST))}
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
