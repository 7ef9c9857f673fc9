"""A build for a board as a folder: the overlay, and the description of its kernels."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from penstock.errors import DeviceError, FileError
from penstock.expr.node import Expr, Op, walk
from penstock.plan.logic import conjuncts_of
from penstock.program import AnyProgram, BandProgram, GeneralProgram, Mode, Program, WindowProgram
from penstock.types import Kind, Type

from ...device.base import PAIRS
from ...device.operator import Operator
from ...device.programs import program_from
from ..kernel.packing import WINDOW
from ..kernel.window_driver import operator_refusal

#: Name of the file that describes a package.
DESCRIPTION = "package.json"


def fits(program: Program, built: Program) -> bool:
    """Whether a build computes a program.

    Arithmetic is exact, so the same operations on wider keys have the same results. A build may
    have keys that say where a column is NULL. A program without NULL in that column leaves such a
    key out, and it then counts as true.

    Parameters
    ----------
    program : Program
    built : Program
        The build's.
    """
    if not (isinstance(program, GeneralProgram) and isinstance(built, GeneralProgram)):
        return False
    needed, offered = (conjuncts_of(p.predicate) for p in (program, built))
    number = _numbered([*needed, *offered, program.value, built.value])
    wanted, has = ({number[e]: e for e in conjuncts} for conjuncts in (needed, offered))
    return (
        _same(number, program.value, built.value)
        and wanted.keys() <= has.keys()
        and all(_is_flag(has[shape]) for shape in has.keys() - wanted.keys())
        and _within(program.stream, built.stream)
        and _within(program.window, built.window)
    )


def _numbered(roots: Sequence[Expr | None]) -> dict[Expr, int]:
    """A number for each node, the same for nodes that differ only in the types of operations."""
    shapes: dict[tuple, int] = {}
    number: dict[Expr, int] = {}
    for expr in walk(*(root for root in roots if root is not None)):
        below = tuple(number[argument] for argument in expr.args)
        kind = expr.type.kind if expr.op is Op.KEY else None
        number[expr] = shapes.setdefault((expr.op, expr.attr, kind, below), len(shapes))
    return number


def _same(number: dict[Expr, int], one: Expr | None, other: Expr | None) -> bool:
    if one is None or other is None:
        return one is other
    return number[one] == number[other]


def _is_flag(expr: Expr) -> bool:
    return expr.op is Op.KEY and expr.type.kind is Kind.BOOL


def _within(keys: Sequence[Type], built: Sequence[Type]) -> bool:
    """Whether keys are of the kinds of a build's keys, and within their bounds."""
    return len(keys) == len(built) and all(
        key.within(0, 0) == other.within(0, 0) and other.lo <= key.lo and key.hi <= other.hi
        for key, other in zip(keys, built, strict=True)
    )


@dataclass(frozen=True)
class Package:
    """A build.

    Parameters
    ----------
    board : str
        Name of the board.
    clock_mhz : float
        Clock of its kernels.
    overlay : str
        Name of the file that PYNQ loads. It includes a hash of the contents, since PYNQ sends a
        name to the board only once.
    instances : list of str
        Names of the kernels in the overlay.
    banks : sequence of mapping of str to list of str
        For each kernel of a card, the memory banks that its ports reach, as XRT names them; empty
        where all memory is one.
    table : mapping
        The kernel's exported table.
    program : mapping, optional
        The built-in program (``device.programs.program_header``); :func:`.fits.fits` says which
        programs it serves. None for kernels that load band programs at run time.
    operator : str
        Operator of all its kernels, a value of :class:`penstock.host.device.operator.Operator`.
    folder : Path, optional
        Where the files are.
    """

    board: str
    clock_mhz: float
    overlay: str
    instances: list[str]
    table: Mapping[str, Any]
    banks: Sequence[Mapping[str, list[str]]] = ()
    program: Mapping[str, Any] | None = None
    operator: str = Operator.RANGE.value
    folder: Path | None = None

    @staticmethod
    def parse(text: str, origin: str, folder: Path | None = None) -> Package:
        """Parse a description.

        Raises
        ------
        FileError
            The text is no description.
        """
        try:
            package = replace(Package(**json.loads(text)), folder=folder)
            Operator(package.operator)
        except (ValueError, TypeError) as error:
            raise FileError(
                f"{origin} does not describe a board package ({error}); make it again with "
                "`penstock board package`"
            ) from error
        return package

    @staticmethod
    def read(folder: Path) -> Package:
        """Read a package from disk.

        Raises
        ------
        FileError
            A file is missing or damaged.
        """
        path = folder / DESCRIPTION
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise FileError(
                f"{folder} is no board package: {error.strerror}: {path}; make one with "
                "`penstock board package`"
            ) from error
        package = Package.parse(text, str(path), folder)
        for name in package.files:
            if not (folder / name).is_file():
                raise FileError(f"{folder} lacks {name}, which {DESCRIPTION} names")
        return package

    def describe(self) -> str:
        """The text of :data:`DESCRIPTION`."""
        values = asdict(self)
        del values["folder"]
        return json.dumps(values, indent=2) + "\n"

    @property
    def files(self) -> list[str]:
        """Files that PYNQ needs: the overlay, and the handoff of a bitstream."""
        stem, _, suffix = self.overlay.rpartition(".")
        return [self.overlay] if suffix == "xclbin" else [self.overlay, f"{stem}.hwh"]

    @property
    def path(self) -> Path:
        """The overlay on disk."""
        assert self.folder is not None
        return self.folder / self.overlay

    @cached_property
    def built(self) -> Program | None:
        """The built-in program."""
        return None if self.program is None else program_from(dict(self.program))

    @property
    def is_window(self) -> bool:
        """Whether its kernels are window-join operators, not join kernels."""
        return Operator(self.operator) is Operator.WINDOW

    @property
    def evaluations_per_cycle(self) -> int:
        """Most pairs that one of its kernels tests per cycle."""
        geometry = self.table["geometry"]
        if self.is_window:
            return geometry["banks"] * (2 if geometry["parallel"] else 1)
        return geometry["units"] * geometry["pipelines"]

    def banks_of(self, number: int, argument: str) -> Sequence[str]:
        """Banks that a kernel, counted from 0, reaches by the port of a pointer; () for any."""
        if not self.banks:
            return ()
        ports = {entry["name"]: entry.get("port") for entry in self.table["registers"]}
        return self.banks[number][ports[argument]]

    @cached_property
    def shared_banks(self) -> Sequence[str]:
        """Banks in which all kernels find the window; () if all memory is one."""
        first, *following = (self.banks_of(k, WINDOW) for k in range(len(self.instances)))
        return tuple(bank for bank in first if all(bank in banks for banks in following))

    def refuses(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> str | None:
        """Why its kernels cannot run a program; None if they can."""
        if isinstance(program, WindowProgram):
            return self._refuses_window_join(program, modes)
        if self.is_window:
            return f"{self.overlay} has the window-join operator, and range joins are asked for"
        if missing := modes - program.modes:
            names = ", ".join(sorted(mode.value for mode in missing))
            return f"it has nothing to fold for {names}"
        geometry, built = self.table["geometry"], self.table["modes"]
        if lacking := sorted(mode.value for mode in modes if mode.value not in built):
            return f"{self.overlay} is built without {', '.join(lacking)}"
        if self.built is not None:
            if not fits(program, self.built):
                return f"{self.overlay} has another predicate built in"
            return None
        if not isinstance(program, BandProgram):
            return (
                f"{self.overlay} has band tests, and the predicate is in general form; build it in "
                "with `penstock board package --sql`"
            )
        if reason := self._too_wide(program):
            return reason
        if any(mode.needs_value for mode in modes):
            assert program.payload is not None
            bits = program.payload.signed_bits
            if bits > geometry["window_value_bits"]:
                return f"{self.overlay} folds {geometry['window_value_bits']} bits, not {bits}"
        return None

    def _refuses_window_join(self, program: WindowProgram, modes: frozenset[Mode]) -> str | None:
        if not self.is_window:
            return f"{self.overlay} has the join kernel, and the window operator is asked for"
        if reason := operator_refusal(program, modes):
            return reason
        for part in (program.a, program.b):
            assert isinstance(part, BandProgram)
            if reason := self._too_wide(part):
                return reason
        if (most := max(program.rows)) > (depth := self.table["geometry"]["depth"]):
            return (
                f"the windows of {self.overlay} hold {depth} rows, fewer than {most}; build "
                "it with a larger --rows-depth"
            )
        return None

    def _too_wide(self, program: BandProgram) -> str | None:
        geometry = self.table["geometry"]
        if program.tests > geometry["tests"]:
            return f"{self.overlay} has {geometry['tests']} band tests, not {program.tests}"
        if program.key_bits > geometry["key_bits"]:
            return f"{self.overlay} has keys of {geometry['key_bits']} bits, not {program.key_bits}"
        return None


def choose(packages: Iterable[Package], reason: Callable[[Package], str | None]) -> Package:
    """The first package that serves.

    Parameters
    ----------
    packages : iterable of Package
    reason : callable
        Why a package does not serve; None if it does.

    Raises
    ------
    DeviceError
        None serves; the message says why for each.
    """
    reasons = []
    for package in packages:
        why = reason(package)
        if why is None:
            return package
        reasons.append(why)
    raise DeviceError("; ".join(reasons) or "there is no package for the board")
