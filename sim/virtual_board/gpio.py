"""An AXI GPIO of a virtual board, whose wires are LEDs: what PYNQ's own self-test looks for."""

from __future__ import annotations

from penstock.hw.board.gpio import DATA, TRI, WIDTH


class Leds:
    """Output wires behind registers, as the vendor's IP has them (PG144).

    Every channel has a word of wires and one that says which of them are inputs. Nothing drives
    the wires from outside, so that reading gives what was written.
    """

    def __init__(self) -> None:
        self._words = {DATA: 0, TRI: 0}

    def read(self, offset: int) -> int:
        """A register's value; those that the IP was configured without read as 0."""
        return self._words.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        """Write a register; bits beyond the wires are not kept."""
        if offset in self._words:
            self._words[offset] = value & ((1 << WIDTH) - 1)

    def close(self) -> None:
        """Nothing runs that could be stopped."""
