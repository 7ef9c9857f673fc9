"""Blocks to and from other workers, and the texts that all of a worker's entries refer to."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..device.fields import MalformedError
from .blocks import BlockWriter, read_block
from .layout import EntryLayout
from .panes import Panes
from .renumbering import Renumbering
from .texts import Texts

#: Bytes of texts that are added before it is worth to look for those that no group needs any more.
LEAST_ADDED_BYTES = 16 << 20


class Exchange:
    """The texts of a worker, and its blocks.

    Texts of groups that have left, and those of rows that were sent on, stay until as many bytes
    have come as the groups held here need; then the others go, and codes are given anew. A text
    that another worker may refer to stays until that one gives its codes anew.

    Parameters
    ----------
    layout : EntryLayout
    digest : bytes
        Of the layout.
    rank, size : int
    """

    def __init__(self, layout: EntryLayout, digest: bytes, rank: int, size: int) -> None:
        self._layout, self._digest, self._rank = layout, digest, rank
        self.texts = Texts()
        self._writers = [BlockWriter(digest, rank, self.texts) for _ in range(size)]
        self._others: dict[int, Renumbering] = {}
        self._tidy_at = LEAST_ADDED_BYTES

    @property
    def nbytes(self) -> int:
        others = sum(one.nbytes for one in self._others.values())
        return self.texts.nbytes + others + sum(one.nbytes for one in self._writers)

    def blocks(self, receiver: int, entries: np.ndarray) -> list[memoryview]:
        """Blocks of changes for their leader."""
        return list(self._writers[receiver].blocks(entries, self._layout.text_words))

    def entries(self, sender: int, block: memoryview | bytes) -> np.ndarray:
        """The entries of a block of changes, with codes of this worker.

        Raises
        ------
        MalformedError
            The block is cut, damaged, of another query or sender, or out of order.
        """
        read = read_block(block, self._digest, self._layout.words)
        if read.sender != sender or read.part:
            raise MalformedError(f"a block of groups does not come from worker {sender}, as said")
        known = self._others.setdefault(sender, Renumbering(self.texts))
        return known.entries(read, self._layout.text_words)

    def saved(self, logs: Iterator[np.ndarray]) -> list[memoryview]:
        """Blocks of a saved state, which needs no other."""
        writer = BlockWriter(self._digest, self._rank, self.texts)
        blocks: list[memoryview] = []
        for log in logs:
            blocks += writer.blocks(log, self._layout.text_words, part=2 if blocks else 1)
        return blocks

    def loaded(self, blocks: Iterator[memoryview | bytes], size_then: int) -> Iterator[np.ndarray]:
        """The entries of saved states, with codes of this worker.

        Raises
        ------
        MalformedError
            A block is cut, damaged, of another query, or out of order.
        """
        known = None
        for block in blocks:
            read = read_block(block, self._digest, self._layout.words)
            if read.part == 1:
                known = Renumbering(self.texts)
            if known is None or read.part not in (1, 2) or not 0 <= read.sender < size_then:
                raise MalformedError(
                    f"a saved state of {size_then} workers has a block that is out of its place"
                )
            yield known.entries(read, self._layout.text_words)

    def tidy(self, led: Panes) -> None:
        """Forget texts that nothing refers to, if many have come.

        No entry may be in a log of changes.

        Parameters
        ----------
        led : Panes
            Gets the new codes.
        """
        if self.texts.content_bytes < self._tidy_at:
            return
        words = self._layout.text_words
        held = np.zeros(len(self.texts), bool)
        held[0] = True
        for log in led.logs():
            for word in words:
                held[log[:, word]] = True
        needed = self.texts.bytes_of(np.flatnonzero(held))
        for other in self._others.values():
            held[other.codes[other.codes >= 0]] = True
        codes = np.cumsum(held) - 1
        self.texts = self.texts.only(np.flatnonzero(held))
        led.recode(codes)
        for other in self._others.values():
            other.recode(codes, self.texts)
        for writer in self._writers:
            writer.renumber(self.texts)
        self._tidy_at = self.texts.content_bytes + max(LEAST_ADDED_BYTES, needed)
