"""How often keys came lately: a count-min sketch whose counters are halved (TinyLFU).

Cormode, Muthukrishnan, J. Algorithms 2005; Einziger, Friedman, Manes, ACM ToS 2017.
"""

from __future__ import annotations

import numpy as np

from penstock.kept_code import kept

_ROWS = 4
#: Keys counted, per counter of a row, after which all counters are halved.
_SAMPLE = 8


class Frequency:
    """Estimates how often each key came, recent times counting more; never too low but by decay.

    Parameters
    ----------
    keys : int
        About how many keys are to be told from each other.
    """

    def __init__(self, keys: int) -> None:
        bits = _bits(keys)
        self._counts = np.zeros((_ROWS, 1 << bits), np.uint8)
        self._shift = np.uint64(64 - bits)
        self._left = _SAMPLE << bits
        #: Keys that were counted, halved whenever the counters are.
        self.total = 0

    @staticmethod
    def bytes_for(keys: int) -> int:
        """Bytes of a sketch for this many keys."""
        return _ROWS << _bits(keys)

    @property
    def memory_bytes(self) -> int:
        return self._counts.nbytes

    def note(self, hashes: np.ndarray) -> None:
        """Count keys that came."""
        _note(hashes, self._counts, self._shift)
        self._left -= len(hashes)
        self.total += len(hashes)
        if self._left <= 0:
            self._counts >>= 1
            self.total >>= 1
            self._left = _SAMPLE * self._counts.shape[1] // 2

    def estimate(self, hashes: np.ndarray) -> np.ndarray:
        """Estimate of how often each key came lately, as float32."""
        estimates = np.empty(len(hashes), np.float32)
        _estimate(hashes, self._counts, self._shift, estimates)
        return estimates


def _bits(keys: int) -> int:
    """Logarithm of the number of counters of a row."""
    return max(8, int(2 * keys - 1).bit_length())


#: Odd factors, one for each row of counters.
_FACTORS = np.array(
    [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], np.uint64
)


@kept()
def _note(hashes, counts, shift):
    places = np.empty(_ROWS, np.uint64)
    for key in hashes:
        least = np.uint8(255)
        for row in range(_ROWS):
            places[row] = (key * _FACTORS[row]) >> shift
            least = min(least, counts[row, places[row]])
        if least == 255:
            continue
        for row in range(_ROWS):  # only the least ones, so that others' keys count less
            if counts[row, places[row]] == least:
                counts[row, places[row]] = least + 1


@kept()
def _estimate(hashes, counts, shift, estimates):
    for k in range(len(hashes)):
        least = np.uint8(255)
        for row in range(_ROWS):
            least = min(least, counts[row, (hashes[k] * _FACTORS[row]) >> shift])
        estimates[k] = least
