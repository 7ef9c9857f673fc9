"""An AXI GPIO of a virtual board with LEDs, which PYNQ's self-test looks for."""

from __future__ import annotations

from penstock.hw.board.gpio import DATA, TRI, WIDTH


class Leds:
    """Output wires behind registers, as the vendor's IP has them (PG144).

    Every channel has a word of wires, and a word that says which of them are inputs. Nothing else
    drives the wires, so a read gives the value that was written.
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
