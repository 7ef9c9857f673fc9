"""The texts of other workers under codes of one's own."""

from __future__ import annotations

import numpy as np

from ..device.fields import MalformedError
from .blocks import StateBlock
from .texts import Texts

#: Code of a text that a sender has not sent.
_UNKNOWN = -1
#: Most codes that a sender may use: a damaged one must not take all memory.
_MOST_CODES = 1 << 32


class Renumbering:
    """Own codes of one sender's texts.

    Parameters
    ----------
    texts : Texts
        Gets the sender's.
    """

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._numbering = 0
        #: Own codes by the sender's.
        self.codes = np.zeros(0, np.int64)

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes

    def recode(self, codes: np.ndarray, texts: Texts) -> None:
        """Own codes are given anew: ``codes[c]`` instead of ``c``."""
        self._texts = texts
        known = self.codes >= 0
        self.codes[known] = codes[self.codes[known]]

    def entries(self, block: StateBlock, text_words: np.ndarray) -> np.ndarray:
        """The entries of a block, with own codes.

        Raises
        ------
        MalformedError
            The block has a code whose text never came.
        """
        if not len(text_words):
            return block.entries
        if block.numbering != self._numbering:
            self._numbering = block.numbering
            self.codes = np.zeros(0, np.int64)
        self._learn(block)
        entries = np.array(block.entries)
        for word in text_words:
            theirs = entries[:, word]
            if len(theirs) and not 0 <= theirs.min() <= theirs.max() < len(self.codes):
                raise _unknown()
            own = self.codes[theirs]
            if (own == _UNKNOWN).any():
                raise _unknown()
            entries[:, word] = own
        return entries

    def _learn(self, block: StateBlock) -> None:
        if not len(block.codes):
            return
        most = int(block.codes.max()) + 1
        if most > _MOST_CODES:
            raise _unknown()
        if most > len(self.codes):
            grown = np.full(max(most, 2 * len(self.codes)), _UNKNOWN, np.int64)
            grown[: len(self.codes)] = self.codes
            self.codes = grown
        starts = np.concatenate([np.zeros(1, np.int64), block.ends[:-1]])
        valid = np.ones(len(starts), bool)
        self.codes[block.codes] = self._texts.encode_parts(
            starts, np.array(block.ends), block.content, valid
        )


def _unknown() -> MalformedError:
    return MalformedError(
        "a block of groups has a text that was never sent: blocks of a worker are merged in their "
        "order, each once"
    )
