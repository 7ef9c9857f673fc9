"""The finaliser of splitmix64 (Steele, Lea, Flood, 2014), by which all hashes mix their bits.

It needs no compiler: a process that wants random numbers from it alone starts faster.
"""

from __future__ import annotations

from typing import Any

import numpy as np

#: The hash before the first key, and the factor between two words.
SEED, SPREAD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1342543DE82EF95)


def mixed(word: Any) -> Any:
    """Mix the bits of a word, or of each in an array of uint64."""
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))
