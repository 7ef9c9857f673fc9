"""Sizes of the window join, in the paper's part family and in today's."""

from __future__ import annotations

from dataclasses import asdict, replace

from bench.store import Store
from bench.window.formulas import PAPER_TUPLE_BITS
from penstock.hw.cells import FAMILY, Cells, synthesise
from penstock.hw.window.config import WindowConfig
from penstock.hw.window.export import TOP, export

_KEY_BITS = 32

#: Yosys' names of families: Virtex-6 is the paper's.
FAMILIES = {"xc6v": "Virtex-6", "xc7": "7 series", FAMILY: "UltraScale+"}


def paper_build(rows: int) -> WindowConfig:
    """One bank, tuples of the paper's width: a key of 32 bits, the rest payload."""
    rest = PAPER_TUPLE_BITS - _KEY_BITS
    return WindowConfig(depth=rows, key_bits=_KEY_BITS, payload_a_bits=rest, payload_b_bits=rest)


def banked_build(rows: int, banks: int) -> WindowConfig:
    """P banks, keys and payloads of 32 bits."""
    return WindowConfig(depth=rows, banks=banks, key_bits=_KEY_BITS)


class Sizes:
    """Measures sizes and keeps them."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def cells(self, config: WindowConfig, family: str = FAMILY) -> Cells:
        """Cells of an operator, synthesised in one piece."""
        text = export(config)
        step = {"what": "cells", "family": family, **asdict(config)}
        return Cells(**self.store.get(step, text, lambda: asdict(synthesise(text, TOP, family))))

    def sequential(self, config: WindowConfig) -> Cells:
        """The same as the paper's sequential join."""
        return self.cells(replace(config, parallel=False))
