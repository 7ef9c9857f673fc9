"""All that is exported, as hashes by names: every board, operator and sort of built-in predicate.

What kernels of one test and of all modes look like is in ``tests/hw/export.json``, small window
kernels are in ``tests/hw/window/kernel/export.json``: they are not repeated here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.constraints.boards import BOARDS, ToolFlow
from penstock.hw.board.hwh import handoff
from penstock.hw.board.scripts import build_scripts
from penstock.hw.export import TOP, export, export_kernel, write_package
from penstock.hw.join.config import JoinConfig
from penstock.hw.join.fjoin.config import FJoinConfig
from penstock.hw.join.fjoin.predicates import general_form, manhattan
from penstock.hw.join.fjoin.size import FJOIN_TOP, fjoin_verilog
from penstock.hw.join.kernel.config import KernelConfig
from penstock.hw.join.kernel.describe import describe
from penstock.hw.kernel.description import Description
from penstock.hw.kernel.link import compute_units
from penstock.hw.window.config import WindowConfig
from penstock.hw.window.export import TOP as WINDOW_TOP
from penstock.hw.window.export import export as export_window
from penstock.hw.window.kernel.config import WindowKernelConfig
from penstock.hw.window.kernel.describe import describe as describe_window
from penstock.hw.window.kernel.export import export_window_kernel
from penstock.program import BandProgram, Mode
from tests.hw.golden.programs import BAND, BUILT_IN, BuiltIn, every_operation

#: Hashes of all files by the names of the exports.
GOLDEN = Path(__file__).with_name("golden.json")

#: Digits of a hash: enough to notice a change.
_DIGITS = 16

#: The board of whatever depends on none.
_BOARD = "u280"

Config = JoinConfig | WindowConfig


@dataclass(frozen=True)
class Export:
    """Something that is exported.

    Parameters
    ----------
    write : callable
        Writes files to a folder that is empty, and may leave others there; those that count.
    is_slow : bool
        Whether it is left to the slow tests.
    needs_yosys : bool
        Whether Verilog is among the files.
    """

    write: Callable[[Path], Iterable[Path]]
    is_slow: bool = False
    needs_yosys: bool = True

    def hashes(self, folder: Path) -> dict[str, str]:
        """Hash of each file by its name."""
        return {str(file.relative_to(folder)): _hash(file) for file in self.write(folder)}


def _hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:_DIGITS]


def recorded() -> dict[str, dict[str, str]]:
    """The hashes that were written down."""
    return json.loads(GOLDEN.read_text(encoding="utf-8"))


# Join pipelines and window operators


def _band(*modes: Mode, **sizes: int) -> JoinConfig:
    values = {"value_bits": 24} if any(mode.needs_value for mode in modes) else {}
    given = {"units": 2, "tests": 2, "key_bits": 16, **values, **sizes}
    return JoinConfig(modes=frozenset({Mode.PAIRS, *modes}), **given)


_BAND_PROGRAM = BandProgram(tests=2, table=0b1110, key_bits=12)
_MANHATTAN = manhattan(32, limit=500)
_SMALL = JoinConfig(units=4, units_per_block=2, tests=1, key_bits=8)
_SMALL_WINDOW = WindowConfig(depth=16, banks=2, tests=1, key_bits=8)

#: Pipelines and operators by name.
CONFIGS: dict[str, Config] = {
    "2 tests": _band(units=5, units_per_block=3),
    "3 wide tests": _band(tests=3, key_bits=64, units_per_block=1),
    "5 tests, table in LUTRAM": _band(tests=5),
    "8 narrow tests": _band(tests=8, key_bits=2),
    "2 tests, count": _band(Mode.COUNT),
    "2 tests, exists": _band(Mode.EXISTS),
    "2 tests, sum": _band(Mode.SUM),
    "2 tests, min and max": _band(Mode.MIN, Mode.MAX),
    "manhattan": JoinConfig(units=4, units_per_block=2, program=_MANHATTAN),
    "every operation": JoinConfig(units=2, program=every_operation()),
    "every operation, nearest": JoinConfig(
        units=2, program=every_operation(), modes=frozenset({Mode.PAIRS, Mode.NEAREST})
    ),
    "every operation, all modes": JoinConfig(
        units=2, program=every_operation(), modes=frozenset(Mode)
    ),
    "paper, manhattan": FJoinConfig(units=4, units_per_block=2, program=_MANHATTAN),
    "paper, 2 tests": FJoinConfig(units=3, units_per_block=2, program=general_form(_BAND_PROGRAM)),
    "window, equality": WindowConfig(depth=16),
    "window, equality of wide keys": WindowConfig(depth=16, key_bits=1100, time_bits=40),
    "window, banks, two results": WindowConfig(depth=32, banks=4, outputs=2, payload_a_bits=7),
    "window, band tests and times": WindowConfig(
        depth=16, banks=2, tests=2, key_bits=12, time_bits=20
    ),
    "window, table in LUTRAM": WindowConfig(depth=16, banks=2, tests=5, key_bits=8),
    "window, sequential": WindowConfig(depth=16, tests=2, parallel=False),
}

#: Operators that are left to the slow tests: others are much like them.
_SLOW = {
    "3 wide tests",
    "8 narrow tests",
    "2 tests, count",
    "2 tests, exists",
    "2 tests, min and max",
    "manhattan",
    "every operation",
    "every operation, nearest",
    "paper, 2 tests",
    "window, equality of wide keys",
    "window, table in LUTRAM",
    "window, sequential",
    "query attack",
    "query city",
    "query near",
    "query quotes",
    "query names and connections",
}

#: A whole kernel that is not: most of a kernel is the same in all.
_QUICK = {"window, equality"}


def _operator(make: Callable[[Path], Config], folder: Path) -> list[Path]:
    """The Verilog of a pipeline or operator alone, and all that describes kernels of it."""
    config = make(folder)
    if isinstance(config, JoinConfig):
        top, text = TOP, export(config)
    else:
        top, text = WINDOW_TOP, export_window(config)
    (folder / f"{top}.v").write_text(text)
    files = [folder / f"{top}.v"]
    for description in _descriptions(config):
        files += _described(description, _BOARD, folder / description.kernel)
    return files


def _descriptions(config: Config) -> list[Description]:
    if isinstance(config, JoinConfig):
        return [describe(KernelConfig.fit(config))]
    return [describe_window(WindowKernelConfig(window=config))] if _memory_feeds(config) else []


def _memory_feeds(config: WindowConfig) -> bool:
    """Whether the operator can be in a kernel that memory feeds."""
    return config.outputs == 1 and config.payload_bits == (32, 32)


def _described(
    description: Description, board: str, folder: Path, *, kernels: int = 1
) -> list[Path]:
    """All files of a kernel but its Verilog."""
    files = write_package(description, lambda: "", board, folder, kernels=kernels)
    return [file for file in files if file.suffix != ".v"]


# Kernels


def _kernel(make: Callable[[Path], Config], folder: Path) -> list[Path]:
    """The Verilog of a kernel; what describes it is among the files of its operator."""
    config = make(folder)
    if isinstance(config, JoinConfig):
        files = export_kernel(KernelConfig.fit(config), _BOARD, folder)
    else:
        files = export_window_kernel(WindowKernelConfig(window=config), _BOARD, folder)
    return [file for file in files if file.suffix == ".v"]


def _pipelines(config: JoinConfig, pipelines: int, folder: Path) -> list[Path]:
    """All files of a kernel of several pipelines."""
    return export_kernel(KernelConfig.fit(config, pipelines), _BOARD, folder)


def _paper_alone(folder: Path) -> list[Path]:
    """What ``penstock synth --build fjoin`` counts the cells of."""
    (folder / f"{FJOIN_TOP}.v").write_text(fjoin_verilog(3, 16))
    return [folder / f"{FJOIN_TOP}.v"]


def _command(query: BuiltIn, folder: Path) -> list[Path]:
    """What the command writes, by way of all that lies before the hardware."""
    out = folder / "out"
    tables = [item for file in query.files(folder) for item in ("--table", file)]
    options = ["--board", "zcu104", "--units", "3", "--no-band", "--out", str(out)]
    done = CliRunner().invoke(app, ["export", "--sql", query.sql, *tables, *options])
    assert done.exit_code == 0, done.output
    return sorted(out.iterdir())


# Boards


def _board(name: str, folder: Path) -> list[Path]:
    """All files for a board but Verilog, which does not depend on it; of several kernels."""
    entry, files = BOARDS[name], []
    for description in (
        describe(KernelConfig.fit(_SMALL)),
        describe_window(WindowKernelConfig(window=_SMALL_WINDOW)),
    ):
        own = folder / description.kernel
        is_card = entry.flow is ToolFlow.VITIS
        files += _described(description, name, own, kernels=3 if is_card else 1)
        copies = compute_units(3, description.kernel)
        texts = build_scripts(description, entry, copies)
        if not is_card:
            texts["penstock.hwh"] = handoff(description, entry, copies)
            texts["with_leds.hwh"] = handoff(description, entry, copies, leds=True)
        for file, text in texts.items():
            (own / file).write_text(text)
            files.append(own / file)
    return files


def _exports() -> dict[str, Export]:
    operators: dict[str, Callable[[Path], Config]] = {
        **{name: partial(_given, config) for name, config in CONFIGS.items()},
        **{f"query {name}": query.config for name, query in BAND.items()},
        **{f"built in, {name}": query.config for name, query in BUILT_IN.items()},
    }
    kernels: dict[str, Callable[[Path], Iterable[Path]]] = {}
    for name, make in operators.items():
        config = CONFIGS.get(name)
        if isinstance(config, WindowConfig) and not _memory_feeds(config):
            continue
        if not name.startswith("query "):  # with other widths only, those are "2 tests"
            kernels[name] = partial(_kernel, make)
    found = {f"board {name}": Export(partial(_board, name), needs_yosys=False) for name in BOARDS}
    for name, make in operators.items():
        found[name] = Export(partial(_operator, make), is_slow=name in _SLOW)
    for name, write in kernels.items():
        found[f"kernel: {name}"] = Export(write, is_slow=name not in _QUICK)
    for number in (2, 5):
        write = partial(_pipelines, _band(tests=1, key_bits=8), number)
        found[f"{number} pipelines"] = Export(write, is_slow=True)
    found["paper, to count cells of"] = Export(_paper_alone)
    found["command, city"] = Export(partial(_command, BUILT_IN["city"]))
    return found


def _given(config: Config, folder: Path) -> Config:
    return config


#: All exports by name.
EXPORTS = _exports()
