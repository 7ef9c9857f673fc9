"""Chooses the width of the units that find the pairs of a band program, by a sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.expr.columns import Columns
from penstock.program import BandProgram, Mode

from ..device.base import Device
from ..device.cut import Piece, spread
from ..devices.narrow.maps import MOST_SAMPLED, CodeMap, FullTest, fit_maps, narrowed
from ..keys.layouts import Layout
from ..windows.run import Snapshot

#: Share of the pairs that narrow units find which may be false, in percent.
MOST_FALSE_PERCENT = 10
#: Most tuples of a sample, and most pairs of them and window rows: some hundredths of a second.
_TUPLES, _PAIRS = 1 << 12, 1 << 21
#: Long ranges are sampled at different offsets: multiples of the golden section.
_STEP = 0.6180339887498949


def sampled_pairs(
    start: np.ndarray, end: np.ndarray, tuples: int, pairs: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sample the pairs of tuples and the positions of their ranges.

    Parameters
    ----------
    tuples, pairs : int
        Most of each.

    Returns
    -------
    at : ndarray of int64
        The tuples.
    i, positions : ndarray
        Of each pair: the place of its tuple in ``at``, and its position.
    """
    some = Piece(np.arange(len(start)), start, end).sample(tuples)
    at, length = some.rows, some.end - some.start
    rows = np.minimum(length, pairs // max(len(at), 1))
    low = some.start + ((length - rows) * (np.arange(len(at)) * _STEP % 1)).astype(np.int64)
    before = np.cumsum(rows) - rows
    i = np.repeat(np.arange(len(at), dtype=np.uint32), rows)
    return at, i, np.arange(len(i)) + np.repeat(low - before, rows)


@dataclass(frozen=True)
class WidthEstimate:
    """Estimate of the pairs that units of one width find.

    Parameters
    ----------
    maps : sequence of CodeMap
        One per test of the program.
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
    """Sample of a probe's pairs, by which the share of false pairs is estimated.

    Parameters
    ----------
    fitted : sequence of ndarray
        Codes of window rows, by which maps are fitted.
    bounds : sequence of ndarray
        Bounds of the pairs' tuples.
    keys : sequence of ndarray
        Keys of the pairs' window rows.
    i : ndarray of uint32
        The tuple of each pair; its window row has the same index in ``keys``.
    """

    program: BandProgram
    fitted: Sequence[np.ndarray]
    bounds: Sequence[np.ndarray]
    keys: Sequence[np.ndarray]
    i: np.ndarray

    @classmethod
    def take(
        cls, layout: Layout, window: Snapshot, columns: Columns, start: np.ndarray, end: np.ndarray
    ) -> UnitSample:
        """Sample a probe; arguments are as for :class:`~..windows.probe.Evaluated`."""
        program = layout.program
        assert isinstance(program, BandProgram)
        sampled = window.keys_at(spread(window.first, window.end, MOST_SAMPLED))
        fitted = layout.window(sampled)
        at, i, positions = sampled_pairs(start, end, _TUPLES, _PAIRS)
        keys = layout.window(window.keys_at(positions))
        bounds = layout.stream({key: v.at(at) for key, v in columns.items()}, len(at)).arrays
        return cls(program, fitted[: program.tests], bounds, keys[: program.tests], i)

    def estimate(self, bits: int) -> WidthEstimate:
        """Estimate which share of the pairs that units of ``bits`` bits find is false."""
        program = self.program
        maps = fit_maps(self.fitted, program.key_bits, bits)
        for one, codes in zip(maps, self.fitted, strict=True):
            one.keys(codes)  # the keys that its cells then hold
        keys = [one.keys(codes) for one, codes in zip(maps, self.keys, strict=True)]
        ranges = zip(maps, self.bounds[::2], self.bounds[1::2], strict=True)
        bounds = [code for one, lo, hi in ranges for code in one.bounds(lo, hi)]
        matches = self._count(program, self.bounds, self.keys)
        narrow_matches = self._count(narrowed(program, bits), bounds, keys)
        share = (narrow_matches - matches) / narrow_matches if narrow_matches else 0.0
        return WidthEstimate(bits, maps, share)

    def _count(
        self, program: BandProgram, bounds: Sequence[np.ndarray], keys: Sequence[np.ndarray]
    ) -> int:
        """Count the pairs that meet a program."""
        j = np.arange(len(self.i), dtype=np.uint32)
        test = FullTest(program)
        return len(test(self.i, j, np.stack(bounds, axis=1), np.stack(keys, axis=1))[0])


def choose_units(sample: UnitSample, widths: Sequence[int]) -> WidthEstimate | None:
    """Return the estimate for the narrowest units with few false pairs; None for full width."""
    for bits in sorted(widths):
        if bits < sample.program.key_bits and (estimate := sample.estimate(bits)).is_good:
            return estimate
    return None


def widths_to_choose(devices: Sequence[Device], program: object, modes: Sequence[Mode]) -> set[int]:
    """Return the narrow widths that a program in these modes can choose from; none where each
    device has one width."""
    if not isinstance(program, BandProgram) or tuple(modes) != (Mode.PAIRS,):
        return set()
    several = [set(device.narrow_widths) for device in devices if len(device.narrow_widths) > 1]
    return {bits for bits in set().union(*several) if bits < program.key_bits}


def modes_for(
    devices: Sequence[Device], program: object, modes: tuple[Mode, ...]
) -> tuple[Mode, ...]:
    """Return the modes to run; EXISTS becomes PAIRS where narrow units cannot evaluate it."""
    if modes != (Mode.EXISTS,) or not isinstance(program, BandProgram):
        return modes
    is_narrow = any(
        max(device.narrow_widths, default=64) < program.key_bits
        and device.refuses(program, frozenset(modes)) is not None
        for device in devices
    )
    return (Mode.PAIRS,) if is_narrow else modes
