"""Chooses the width of the units that find the pairs of a band program, by a sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.expr.columns import Columns
from penstock.program import BandProgram, Mode

from ..device.base import Device
from ..devices.narrow.maps import MOST_SAMPLED, CodeMap, fit_maps, narrowed
from ..devices.narrow.testing import PairTest
from ..keys.layouts import Layout
from ..prune.choice import spread
from ..windows.run import Snapshot

#: Share of the pairs that narrow units find which may be false, in percent.
MOST_FALSE_PERCENT = 10
#: Most tuples of a sample, and most pairs of them and window rows: some hundredths of a second.
_TUPLES, _PAIRS = 1 << 12, 1 << 21
#: Of a long range another part is taken than of its neighbour's: the golden section.
_STEP = 0.6180339887498949


@dataclass(frozen=True)
class Expected:
    """What units of a width are expected to find.

    Parameters
    ----------
    maps : sequence of CodeMap
        Of the program's tests.
    share : float
        Share of the pairs found that are false.
    """

    bits: int
    maps: Sequence[CodeMap]
    share: float

    @property
    def is_good(self) -> bool:
        return 100 * self.share <= MOST_FALSE_PERCENT


@dataclass(frozen=True)
class UnitSample:
    """Pairs that tell how many of those that narrow units find are false.

    Parameters
    ----------
    fitted : sequence of ndarray
        Codes of window rows, by which maps are fitted.
    bounds : sequence of ndarray
        Of the pairs' tuples.
    keys : sequence of ndarray
        Of the pairs' window rows.
    i : ndarray of uint32
        The tuple of each pair; its row is the one of the same place.
    """

    program: BandProgram
    fitted: Sequence[np.ndarray]
    bounds: Sequence[np.ndarray]
    keys: Sequence[np.ndarray]
    i: np.ndarray

    @classmethod
    def take(
        cls, made: Layout, window: Snapshot, columns: Columns, start: np.ndarray, end: np.ndarray
    ) -> UnitSample:
        """Sample a probe; the arguments are those of :class:`~..windows.probe.Evaluated`."""
        program = made.program
        assert isinstance(program, BandProgram)
        step = -(-len(window.times) // MOST_SAMPLED) or 1
        fitted = made.window(window.keys_at(np.arange(window.first, window.end, step)))
        at = spread(len(start), _TUPLES)
        at = at[start[at] < end[at]]
        length = end[at] - start[at]
        rows = np.minimum(length, _PAIRS // max(len(at), 1))
        low = start[at] + ((length - rows) * (np.arange(len(at)) * _STEP % 1)).astype(np.int64)
        before = np.cumsum(rows) - rows
        i = np.repeat(np.arange(len(at), dtype=np.uint32), rows)
        positions = np.arange(len(i)) + np.repeat(low - before, rows)
        keys = made.window(window.keys_at(positions))
        bounds = made.stream({key: v.at(at) for key, v in columns.items()}, len(at)).arrays
        return cls(program, fitted[: program.tests], bounds, keys[: program.tests], i)

    def expected(self, bits: int) -> Expected:
        """What units of so many bits are expected to find."""
        program = self.program
        maps = fit_maps(self.fitted, program.key_bits, bits)
        for one, own in zip(maps, self.fitted, strict=True):
            one.keys(own)  # the keys that its cells then hold
        keys = [one.keys(own) for one, own in zip(maps, self.keys, strict=True)]
        ranges = zip(maps, self.bounds[::2], self.bounds[1::2], strict=True)
        bounds = [code for one, lo, hi in ranges for code in one.bounds(lo, hi)]
        matches = self._count(program, self.bounds, self.keys)
        found = self._count(narrowed(program, bits), bounds, keys)
        return Expected(bits, maps, (found - matches) / found if found else 0.0)

    def _count(
        self, program: BandProgram, bounds: Sequence[np.ndarray], keys: Sequence[np.ndarray]
    ) -> int:
        """Number of the pairs that meet a program."""
        j = np.arange(len(self.i), dtype=np.uint32)
        test = PairTest(program)
        return len(test(self.i, j, np.stack(bounds, axis=1), np.stack(keys, axis=1))[0])


def choose_units(sample: UnitSample, widths: Sequence[int]) -> Expected | None:
    """What the narrowest units with few false pairs are expected to find; None for full width."""
    for bits in sorted(widths):
        if bits < sample.program.key_bits and (found := sample.expected(bits)).is_good:
            return found
    return None


def widths_to_choose(devices: Sequence[Device], program: object, modes: Sequence[Mode]) -> set[int]:
    """Widths of units that a program for these modes could be asked to run on; none to choose
    where each device has one width."""
    if not isinstance(program, BandProgram) or tuple(modes) != (Mode.PAIRS,):
        return set()
    several = [set(device.narrow_widths) for device in devices if len(device.narrow_widths) > 1]
    return {bits for bits in set().union(*several) if bits < program.key_bits}


def modes_for(
    devices: Sequence[Device], program: object, modes: tuple[Mode, ...]
) -> tuple[Mode, ...]:
    """The modes to find out which tuples have a match: as pairs, where narrow units cannot tell."""
    if modes != (Mode.EXISTS,) or not isinstance(program, BandProgram):
        return modes
    is_narrow = any(
        max(device.narrow_widths, default=64) < program.key_bits
        and device.refuses(program, frozenset(modes)) is not None
        for device in devices
    )
    return (Mode.PAIRS,) if is_narrow else modes
