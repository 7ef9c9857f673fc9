"""Sizes of a kernel's memory ports, and of the masters behind them."""

from __future__ import annotations

from dataclasses import dataclass

from ..checks import check_power_range

#: Widths that a memory port may have.
PORT_BITS = (64, 128, 256, 512)

#: Addresses of whatever a task has in memory are multiples of this; so long is the header.
ALIGN_BYTES = 64

#: An AXI burst must not cross a boundary of this many bytes, nor have more words than this.
PAGE_BYTES = 4096
_BURST_WORDS = 256


@dataclass(frozen=True, kw_only=True)
class PortSizes:
    """Memory ports of a kernel, and the masters behind them.

    Parameters
    ----------
    word_bits : int
        Width of the ports, and so of a memory word: one of :data:`PORT_BITS`.
    burst_words : int
        Longest burst, a power of two up to 256 words and 4 KiB.
    read_words : int
        Room of a read master for words that were asked for: what covers the memory's latency. 512
        words of 512 bits take as much block RAM as one word does.
    write_words : int
        Words that the write master gathers bursts in.
    """

    word_bits: int = 512
    burst_words: int = 64
    read_words: int = 512
    write_words: int = 256

    def __post_init__(self) -> None:
        if self.word_bits not in PORT_BITS:
            known = ", ".join(map(str, PORT_BITS))
            raise ValueError(f"word_bits must be one of {known}, not {self.word_bits!r}")
        for name, low, high in (
            ("burst_words", 1, min(PAGE_BYTES // self.word_bytes, _BURST_WORDS)),
            ("read_words", 4, 1 << 16),
            ("write_words", 4, 1 << 16),
        ):
            check_power_range(name, getattr(self, name), low, high)
        if min(self.read_words, self.write_words) < self.burst_words:
            raise ValueError(
                f"read_words and write_words must hold a burst of {self.burst_words} words, not "
                f"{self.read_words!r} and {self.write_words!r}"
            )

    @property
    def word_bytes(self) -> int:
        """Bytes of a memory word."""
        return self.word_bits // 8

    @property
    def word_log2(self) -> int:
        """Logarithm of the bytes of a memory word."""
        return (self.word_bytes - 1).bit_length()
