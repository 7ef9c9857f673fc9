"""Exchange of blocks with other workers, and the texts that a worker's entries refer to."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..device.fields import MalformedError
from .blocks import BlockWriter, StateBlock, read_block
from .entry_layout import EntryLayout
from .panes import Panes
from .texts import Texts

#: Bytes of texts to be added before it is worth looking for texts that no group needs any more.
LEAST_ADDED_BYTES = 16 << 20


#: Stands for the code of a text that the sender has not sent.
_UNKNOWN = -1
#: Most codes that a sender may use: a damaged one must not take all memory.
_MOST_CODES = 1 << 32


class Renumbering:
    """Map of one sender's codes of texts to this worker's codes.

    Parameters
    ----------
    texts : Texts
        Gets the sender's.
    """

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._numbering = 0
        #: This worker's code, by the sender's.
        self.codes = np.zeros(0, np.int64)

    @property
    def nbytes(self) -> int:
        return self.codes.nbytes

    def recode(self, codes: np.ndarray, texts: Texts) -> None:
        """Follow a change of this worker's codes: ``codes[c]`` replaces ``c``."""
        self._texts = texts
        known = self.codes >= 0
        self.codes[known] = codes[self.codes[known]]

    def entries(self, block: StateBlock, text_words: np.ndarray) -> np.ndarray:
        """Return the entries of a block, with this worker's codes.

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
            ours = self.codes[theirs]
            if (ours == _UNKNOWN).any():
                raise _unknown()
            entries[:, word] = ours
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


class Exchange:
    """Sender and receiver of a worker's blocks, with the worker's table of texts.

    Texts of groups that were released or sent on stay until as many bytes have been added as the
    groups held here need; then the unused ones go, and codes are assigned anew. A text that
    another worker may refer to stays until that worker assigns its codes anew.

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
        self._renumberings: dict[int, Renumbering] = {}
        self._tidy_at = LEAST_ADDED_BYTES

    @property
    def nbytes(self) -> int:
        maps = (*self._renumberings.values(), *self._writers)
        return self.texts.nbytes + sum(one.nbytes for one in maps)

    def blocks(self, receiver: int, entries: np.ndarray) -> list[memoryview]:
        """Return changes as blocks for their leader."""
        return list(self._writers[receiver].blocks(entries, self._layout.text_words))

    def entries(self, sender: int, block: memoryview | bytes) -> np.ndarray:
        """Return the entries of a helper's block of changes, with codes of this worker.

        Raises
        ------
        MalformedError
            The block is cut, damaged, of another query or sender, or out of order.
        """
        read = read_block(block, self._digest, self._layout.words)
        if read.sender != sender or read.part:
            raise MalformedError(f"a block of groups does not come from worker {sender}, as said")
        known = self._renumberings.setdefault(sender, Renumbering(self.texts))
        return known.entries(read, self._layout.text_words)

    def saved(self, logs: Iterator[np.ndarray]) -> list[memoryview]:
        """Return the groups of a checkpoint as blocks that can be read by themselves."""
        writer = BlockWriter(self._digest, self._rank, self.texts)
        blocks: list[memoryview] = []
        for log in logs:
            blocks += writer.blocks(log, self._layout.text_words, part=2 if blocks else 1)
        return blocks

    def loaded(self, blocks: Iterator[memoryview | bytes], size_then: int) -> Iterator[np.ndarray]:
        """Yield the entries of saved states, with codes of this worker.

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
        """Forget texts that nothing refers to, if many bytes of texts were added.

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
        for other in self._renumberings.values():
            held[other.codes[other.codes >= 0]] = True
        codes = np.cumsum(held) - 1
        self.texts = self.texts.only(np.flatnonzero(held))
        led.recode(codes)
        for other in self._renumberings.values():
            other.recode(codes, self.texts)
        for writer in self._writers:
            writer.renumber(self.texts)
        self._tidy_at = self.texts.content_bytes + max(LEAST_ADDED_BYTES, needed)
