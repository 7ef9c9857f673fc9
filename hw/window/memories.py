"""What the queues of a build take of a board's memory blocks, and in which of them they lie."""

from __future__ import annotations

from dataclasses import replace

from penstock.constraints.boards import Board

from .config import MemoryKind, WindowConfig
from .layout import Side, entry_layout

#: Widths that a block RAM of 36 kbit can have, and its words then (UG573).
_BLOCK_RAM = ((72, 512), (36, 1024), (18, 2048), (9, 4096), (4, 8192), (2, 16384), (1, 32768))
#: Width of an UltraRAM, which has no other, and its words.
_URAM = (72, 4096)


def bank_rams(bits: int, slots: int) -> float:
    """Block RAMs of a bank whose tuples have so many bits, in halves."""
    width, words = next((ram for ram in _BLOCK_RAM if ram[1] >= slots), _BLOCK_RAM[-1])
    whole, rest = divmod(bits, width)
    # What is left over may fit a half, a block RAM of 18 kbit.
    part = 0.0 if not rest else 0.5 if rest <= width // 2 else 1.0
    return (whole + part) * max(slots // words, 1)


def bank_urams(bits: int, slots: int) -> int:
    """UltraRAMs of a bank whose tuples have so many bits."""
    width, words = _URAM
    return -(-bits // width) * -(-slots // words)


def placed(config: WindowConfig, board: Board) -> WindowConfig:
    """The build with each queue in the kind of memory of which it takes the smaller share."""
    kinds = {f"memory_{side.name.lower()}": _smaller(config, side, board) for side in Side}
    return replace(config, **kinds)


def _smaller(config: WindowConfig, side: Side, board: Board) -> MemoryKind:
    bits, slots = entry_layout(config, side).size, config.depth // config.banks
    if not board.uram:
        return "auto"
    rams = config.banks * bank_rams(bits, slots) / board.bram
    return "uram" if config.banks * bank_urams(bits, slots) / board.uram < rams else "auto"
