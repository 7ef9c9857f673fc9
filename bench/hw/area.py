"""Sizes: whole pipelines, single units, and the longest path of a block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from bench.store import Store, sources
from penstock.hw.cells import Cells, synthesise
from penstock.hw.compose import compose
from penstock.hw.export import TOP, export
from penstock.hw.join.block import Block
from penstock.hw.join.config import JoinConfig
from penstock.hw.join.fjoin.predicates import manhattan
from penstock.hw.join.fjoin.size import FJOIN_TOP, fjoin_verilog
from penstock.hw.join.unit import Unit
from penstock.hw.paths import longest_paths
from penstock.hw.verilog import verilog
from penstock.program import Mode

COUNT = frozenset({Mode.PAIRS, Mode.COUNT})
#: All that a band build offers.
FULL = frozenset(set(Mode) - {Mode.NEAREST})
#: Width of the value that sum, min and max fold in the full build.
VALUE_BITS = 32


def builds(units: int) -> dict[str, JoinConfig]:
    """The pipelines whose sizes have targets, by name."""
    return {
        "two 32-bit band tests": JoinConfig(units=units, tests=2, key_bits=32),
        "two 24-bit band tests": JoinConfig(units=units, tests=2, key_bits=24),
        "two 32-bit band tests, with count": JoinConfig(
            units=units, tests=2, key_bits=32, modes=COUNT
        ),
        "two 32-bit band tests, all modes": JoinConfig(
            units=units, tests=2, key_bits=32, modes=FULL, value_bits=VALUE_BITS
        ),
        "Manhattan distance built in, 32-bit": JoinConfig(
            units=units, program=manhattan(32, limit=500)
        ),
    }


class Sizes:
    """Measures sizes and keeps them."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def sum_of_parts(self, name: str, config: JoinConfig) -> Cells:
        """Cells of a pipeline, as the sum of its parts."""
        step = {"what": "sum of parts", "build": name, "units": config.units}
        return self._parts(step, lambda: export(config), TOP)

    def whole(self, name: str, config: JoinConfig) -> Cells:
        """Cells of a pipeline, synthesised in one piece."""
        step = {"what": "one piece", "build": name, "units": config.units}
        return self._cells(step, sources(), lambda: synthesise(export(config), TOP))

    def fjoin(self, units: int) -> Cells:
        """Cells of the paper's pipeline, as the sum of its parts."""
        step = {"what": "sum of parts", "build": "fjoin", "units": units}
        return self._parts(step, lambda: fjoin_verilog(units), FJOIN_TOP)

    def unit(self, tests: int, key_bits: int) -> Cells:
        """Cells of one join unit, without head, mask and FIFO."""
        step = {"what": "unit", "tests": tests, "key_bits": key_bits}
        config = JoinConfig(units=2, tests=tests, key_bits=key_bits)
        return self._cells(
            step, sources(), lambda: synthesise(verilog(Unit(config), "unit"), "unit")
        )

    def depth(self, units: int) -> dict[str, Any]:
        """The longest path of a block with two 32-bit band tests that is not the last one."""
        config = JoinConfig(units=2 * units, units_per_block=units, tests=2, key_bits=32)

        def measure() -> dict[str, Any]:
            path = longest_paths(verilog(Block(config, 0), "block"), "block")[0]
            return {"ns": path.ns, "text": str(path)}

        step = {"what": "longest path of a block", "units": units}
        return self.store.get(step, sources(), measure)

    def _parts(self, step: dict[str, Any], text: Callable[[], str], top: str) -> Cells:
        def part(text: str, top: str) -> Cells:
            # Parts outlive changes elsewhere: their own text is what they are kept by.
            return self._cells({"what": "part"}, text, lambda: synthesise(text, top))

        return self._cells(step, sources(), lambda: compose(text(), top, part))

    def _cells(self, step: dict[str, Any], content: str, measure: Callable[[], Cells]) -> Cells:
        return Cells(**self.store.get(step, content, lambda: asdict(measure())))
