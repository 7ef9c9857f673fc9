"""Blocks: entries of groups and their texts as bytes, sent to leaders and kept in checkpoints.

A block is a header of ten words (see :data:`FIELDS`), the texts, and the entries, all in words of
8 bytes, little-endian. The texts are codes, ends and bytes, padded to a word; codes of texts are
the sender's, and a text travels with the first entry that needs it. A new ``numbering`` begins
when the sender assigns codes anew.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..device.fields import MalformedError
from .texts import Texts

#: "PENSTATE", as a little-endian word; the layout's digest has the version.
MAGIC = int.from_bytes(b"PENSTATE", "little")
#: The words of a header.
FIELDS = (
    "magic", "layout", "sender", "numbering", "texts", "text_bytes", "entries", "words", "part",
    "checksum",
)  # fmt: skip
#: Bytes of a block, about: large enough that calls cost little, small enough that some blocks are
#: merged while others are sent.
BLOCK_BYTES = 1 << 20
_HEADER = len(FIELDS)


@dataclass(frozen=True)
class StateBlock:
    """A decoded block, whose lengths and checksum have been verified.

    Parameters
    ----------
    sender : int
        Rank of the worker that wrote the block.
    numbering : int
        Number of the sender's assignment of codes to texts.
    part : int
        0 for a change, 1 for the first block of a saved state, 2 for its others.
    codes, ends : ndarray of int64
        Code of each new text, and where its bytes end in ``content``.
    content : ndarray of uint8
    entries : ndarray of int64, shape (n, words)
        Perhaps a view of the block.
    """

    sender: int
    numbering: int
    part: int
    codes: np.ndarray
    ends: np.ndarray
    content: np.ndarray
    entries: np.ndarray


class BlockWriter:
    """Writer of the blocks from one sender to one receiver.

    Parameters
    ----------
    digest : bytes
        Of the layout.
    sender : int
        Rank.
    texts : Texts
    """

    def __init__(self, digest: bytes, sender: int, texts: Texts) -> None:
        self._layout = int.from_bytes(digest, "little", signed=True)
        self._sender, self._texts = sender, texts
        self.numbering = 0
        self._sent = np.zeros(0, bool)

    @property
    def nbytes(self) -> int:
        return self._sent.nbytes

    def renumber(self, texts: Texts) -> None:
        """Begin a new numbering: codes have changed, so all texts travel again."""
        self._texts = texts
        self.numbering += 1
        self._sent = np.zeros(0, bool)

    def blocks(
        self, entries: np.ndarray, text_words: np.ndarray, part: int = 0
    ) -> Iterator[memoryview]:
        """Yield blocks of entries, each with the texts that the receiver has not got yet.

        Parameters
        ----------
        entries : ndarray of int64, shape (n, words)
        text_words : ndarray of int64
            The words of an entry that are codes of texts.
        part : int
            See :class:`StateBlock`; the blocks after the first of a saved state have 2.
        """
        rows = max(1, BLOCK_BYTES // (8 * entries.shape[1]))
        for start in range(0, len(entries), rows):
            some = entries[start : start + rows]
            yield self._block(some, self._new_texts(some, text_words), part)
            part = 2 if part else 0

    def _new_texts(self, entries: np.ndarray, text_words: np.ndarray) -> np.ndarray:
        """Return the codes of texts that have not been sent, and count them as sent."""
        if not len(text_words):
            return np.zeros(0, np.int64)
        if len(self._sent) < len(self._texts):
            grown = np.zeros(2 * len(self._texts), bool)
            grown[: len(self._sent)] = self._sent
            self._sent = grown
        codes = entries[:, text_words].reshape(-1)
        codes = np.unique(codes[~self._sent[codes]])
        self._sent[codes] = True
        return codes

    def _block(self, entries: np.ndarray, codes: np.ndarray, part: int) -> memoryview:
        ends, content = self._texts.parts(codes)
        filled = -(-len(content) // 8)
        count, words = entries.shape
        total = _HEADER + 2 * len(codes) + filled + count * words
        block = np.empty(total, np.int64)
        block[:_HEADER] = (
            MAGIC, self._layout, self._sender, self.numbering, len(codes), len(content), count,
            words, part, 0,
        )  # fmt: skip
        at = _HEADER + len(codes)
        block[_HEADER:at] = codes
        block[at : at + len(codes)] = ends
        at += len(codes)
        block[at : at + filled] = 0
        block[at : at + filled].view(np.uint8)[: len(content)] = content
        at += filled
        block[_HEADER - 1] = zlib.crc32(block[:at].data)
        block[at:] = entries.reshape(-1)
        return block.view(np.uint8).data


def read_block(data: memoryview | bytes, digest: bytes, words: int) -> StateBlock:
    """Decode a block, and verify it.

    Parameters
    ----------
    data : buffer
        Entries are a view of it, if it is aligned and may be written.
    digest : bytes
        Of the layout that it must have.
    words : int
        Of an entry.

    Raises
    ------
    MalformedError
        It is cut, damaged, or of another query.
    """
    raw = np.frombuffer(data, np.uint8)
    if len(raw) < 8 * _HEADER or len(raw) % 8:
        raise MalformedError(f"a block of groups has {len(raw)} bytes, which is no whole header")
    block = raw.view(np.int64)
    if not raw.flags.writeable or raw.ctypes.data % 8:
        block = np.array(block)
    head = dict(zip(FIELDS, block[:_HEADER].tolist(), strict=True))
    if head["magic"] != MAGIC:
        raise MalformedError("a block of groups does not begin as one: it is damaged")
    if head["layout"] != int.from_bytes(digest, "little", signed=True) or head["words"] != words:
        raise MalformedError(
            "a block of groups is of another query, schema or version; run all workers with the "
            "same"
        )
    texts, text_bytes, entries = head["texts"], head["text_bytes"], head["entries"]
    # Each is bounded by itself, so that the sum cannot wrap.
    sound = all(0 <= n <= len(raw) for n in (texts, text_bytes, entries))
    filled = -(-text_bytes // 8)
    at = _HEADER + 2 * texts + filled
    if not sound or at + entries * words != len(block):
        raise MalformedError("a block of groups has another length than it says: it is cut")
    part = np.array(block[:at])
    part[_HEADER - 1] = 0
    if zlib.crc32(part.data) != head["checksum"]:
        raise MalformedError("a block of groups is damaged: its checksum differs")
    codes, ends = part[_HEADER : _HEADER + texts], part[_HEADER + texts : _HEADER + 2 * texts]
    steps = np.diff(ends, prepend=0)
    if (steps < 0).any() or (ends[-1] if texts else 0) != text_bytes or (codes < 0).any():
        raise MalformedError("a block of groups has texts that overlap: it is damaged")
    content = part[at - filled : at].view(np.uint8)[:text_bytes]
    return StateBlock(
        head["sender"], head["numbering"], head["part"], codes, ends, content,
        block[at:].reshape(entries, words),
    )  # fmt: skip
