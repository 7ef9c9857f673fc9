"""Hot keys: so frequent that their rows are answered where they arrive, not at their owner.

A ring spreads keys over nodes, not rows: at exponent 1.2 one key has 18.5 % of all rows, so its
node of 8 has 2.3 times the mean. Rows of hot keys arrive at all nodes evenly, and each of them can
hold these few keys: no more than ``SHARE * nodes`` keys can each have over 1 / (SHARE * nodes) of
the rows.
"""

from __future__ import annotations

import numpy as np

from .frequency import Frequency

#: A key is hot above 1 / (SHARE * nodes) of the rows. The busiest of 8 nodes has 1.07 times the
#: mean at exponent 1.2 (median of simulated rings); with 4 instead of 32, 1.23 times.
SHARE = 32
#: Rows of a key, at least, before it is hot: a few rows say nothing yet.
LEAST = 16.0
#: Keys that the sketch tells apart, per node. It halves its counters after 16 times as many rows,
#: so the bound is a count of 32 to 128: many enough to be sure, few enough for its counters.
_KEYS = 128
#: Rows that are counted at once: a small share of those between two halvings.
_PIECE = 1 << 10


class HotKeys:
    """Finds hot keys by how often they came lately; its memory grows with the nodes only.

    Parameters
    ----------
    nodes : int
        Among which keys are spread; see :meth:`are_hot`.
    """

    def __init__(self, nodes: int = 1) -> None:
        self._frequency = Frequency(_KEYS * _rounded(nodes))
        self._nodes = nodes

    @property
    def memory_bytes(self) -> int:
        return self._frequency.memory_bytes

    def note(self, hashes: np.ndarray) -> None:
        """Count the keys of rows that arrived.

        Parameters
        ----------
        hashes : ndarray of uint64
        """
        for first in range(0, len(hashes), _PIECE):
            self._frequency.note(hashes[first : first + _PIECE])

    def are_hot(self, hashes: np.ndarray, nodes: int) -> np.ndarray:
        """Whether each key has more than 1 / (32 nodes) of the rows that came lately.

        Parameters
        ----------
        hashes : ndarray of uint64
        nodes : int
            Where there are twice as many as before, or half as many, counting begins anew: until
            some rows have come, no key is hot.

        Returns
        -------
        ndarray of bool
        """
        if _rounded(nodes) != _rounded(self._nodes):
            self._frequency = Frequency(_KEYS * _rounded(nodes))
        self._nodes = nodes
        bound = max(LEAST, self._frequency.total / (SHARE * max(1, nodes)))
        return self._frequency.estimate(hashes) > bound


def _rounded(nodes: int) -> int:
    """The next power of two."""
    return 1 << max(0, nodes - 1).bit_length()
