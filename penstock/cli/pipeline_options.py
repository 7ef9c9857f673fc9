"""Options of ``synth``, ``export`` and ``board`` that describe a pipeline, or its kernel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.host.device.operator import Operator
from penstock.host.device.registry import open_device
from penstock.host.join.table.table_join import TableJoin
from penstock.host.keys.prepare import layout

from ..api.explaining import keys_of
from ..api.table_query import TableQuery
from ..errors import MissingToolError, PenstockError, UsageError, installing
from ..plan.forms import JoinForm, join_form
from ..plan.group_query import GroupQuery
from ..program import BandProgram, Mode, Program
from ..query.join_window import NoWindowError
from ..words import many
from . import inputs
from .options import group, option

if TYPE_CHECKING:
    from penstock.hw.join.config import JoinConfig
if TYPE_CHECKING:
    from penstock.constraints.boards import Board
    from penstock.hw.join.kernel.config import KernelConfig
    from penstock.hw.window.config import WindowConfig
    from penstock.hw.window.kernel.config import WindowKernelConfig

#: Bits of a build's keys are rounded up to a multiple of this, so that it serves other files, too.
KEY_STEP_BITS = 8

#: Default sizes of a build.
TESTS, KEY_BITS = 2, 32

#: Width of the window-side value that sum, min and max of a band build fold.
VALUE_BITS = 32

Units = Annotated[int, typer.Option(help="Join units of a pipeline.")]


@group
class BuildQuery:
    """The query that a pipeline is built for, if there is one."""

    sql: str | None = option("Build for this query; --table names its files.")
    table: inputs.Texts = option(
        "NAME=FILE; repeat. Keys get the widths that the files' values need, rounded up "
        f"to a multiple of {KEY_STEP_BITS} bits.",
        "--table",
        "-t",
    )
    csv: inputs.CsvArguments = field(default_factory=inputs.CsvArguments)
    window: str | None = option(
        "ALIAS of the table that flows past the units; by default the cheaper."
    )
    options: inputs.QueryArguments = field(default_factory=inputs.QueryArguments)
    no_band: inputs.NoBand = False

    def programs(self) -> list[Program]:
        """Give the programs of the query, one per direction, without repetition."""
        tables = self.csv.tables(self.table or [])
        table_query = TableQuery.classify(self.sql or "", tables, self.options.chosen())
        try:
            query = table_query.whole
        except NoWindowError:
            raise UsageError(
                "a pipeline joins over a window, and this join has none: name the time column of "
                "both tables (--time ALIAS=COLUMN for each), and give a window: a time bound in "
                "ON, --within 60s or --rows 1000"
            ) from None
        if isinstance(query, GroupQuery):
            raise UsageError(
                "a pipeline is of a join, and the query is over one table; name a second one, or "
                "group the table with penstock sql"
            )
        query.require_pairs("a pipeline of a query")
        with open_device("cpu") as device:
            join = TableJoin(query, table_query.needed(), device, band=not self.no_band)
        forms = [part.form for part in join.evaluations]
        if self.window is not None:
            names = query.names
            if self.window not in names.values():
                known = " and ".join(names.values())
                raise UsageError(
                    f"--window takes one of the query's tables, {known}, not {self.window!r}"
                )
            side = next(side for side, name in names.items() if name == self.window)
            forms = [join_form(query.predicate, side, band=not self.no_band)]
        return list(dict.fromkeys(_program(form, join) for form in forms))


@group
class PipelineArguments:
    """The tests and modes of a pipeline."""

    band: int | None = option(
        f"Run-time band tests, 1 to 8: serves every predicate with so many or fewer; {TESTS} "
        "unless --sql says it."
    )
    key_bits: int | None = option(
        f"Width of a band code, {KEY_BITS} unless --sql says it (then at least what the "
        "files need)."
    )
    modes: str | None = option(
        "What tasks can ask for besides pairs, separated by commas: count, exists, sum, "
        "min, max, nearest. Of a query's general form, those that its value allows."
    )

    def config(self, units: int, query: BuildQuery) -> JoinConfig:
        """Describe the pipeline.

        Raises
        ------
        UsageError
            The options contradict each other, or there is no such build.
        MissingToolError
            The packages that hardware is generated with are not installed.
        QueryError, SchemaError, DataError, FileError
            The query or its files cannot be used.
        DeviceError
            The predicate cannot be built in hardware.
        """
        with building():
            from penstock.hw.join.config import JoinConfig
        if query.sql is None:
            if query.table or query.window or query.no_band:
                raise UsageError("--table, --window and --no-band describe a query: add --sql")
            arguments: dict[str, Any] = {
                "tests": TESTS if self.band is None else self.band,
                "key_bits": KEY_BITS if self.key_bits is None else self.key_bits,
            }
        elif self.band is not None:
            raise UsageError("--band and --sql both say what to build; give one of them")
        else:
            arguments = _arguments(query.programs(), self.key_bits)
        chosen = _modes(self.modes)
        if "program" not in arguments and any(mode.needs_value for mode in chosen):
            arguments["value_bits"] = VALUE_BITS
        with building():
            return JoinConfig(units=units, modes=chosen, **arguments)


@contextmanager
def building() -> Iterator[None]:
    """Turn errors of the hardware's modules into errors of the command line.

    Raises
    ------
    MissingToolError
        The packages that hardware is generated with are not installed.
    UsageError
        There is no such build.
    """
    try:
        yield
    except PenstockError:
        raise
    except ModuleNotFoundError as error:
        raise MissingToolError(
            f"hardware is generated with {error.name}, which is not installed; {installing('rtl')}"
        ) from None
    except ValueError as error:
        raise UsageError(str(error)) from None


def describe(join: JoinConfig) -> str:
    """Describe a build in a line."""
    names = [mode.value for mode in Mode if mode in join.modes]
    folds = f", {', '.join(names)}" if len(names) > 1 else ""
    if join.program is None:
        tests = many(join.tests, "band test")
        return f"{join.units} units, {tests} of {join.key_bits} bits, set at run time{folds}"
    keys = ", ".join(str(dtype.bits) for dtype in (*join.program.stream, *join.program.window))
    stages = f"{join.schedule.stages} stages"
    return f"{join.units} units, built-in predicate in {stages}, keys of {keys} bits{folds}"


def _modes(text: str | None) -> frozenset[Mode]:
    known = {mode.value: mode for mode in Mode}
    names = [name.strip() for name in text.split(",")] if text else []
    for name in names:
        if name not in known:
            raise UsageError(f"--modes takes some of {', '.join(known)}, not {name!r}")
    return frozenset({Mode.PAIRS, *(known[name] for name in names)})


def _program(form: JoinForm, join: TableJoin) -> Program:
    keys = keys_of(join.tables.sides, form)
    widths = range(KEY_STEP_BITS, 64 + 1, KEY_STEP_BITS)
    return layout(form, *keys, widths, spare_bits=KEY_STEP_BITS).program


def _arguments(programs: list[Program], key_bits: int | None) -> dict[str, Any]:
    """Give the arguments of a build that runs all of these programs."""
    band = [program for program in programs if isinstance(program, BandProgram)]
    if len(band) == len(programs):
        needed = max(program.key_bits for program in band)
        if key_bits is not None and key_bits < needed:
            raise UsageError(f"the files need band codes of {needed} bits, not {key_bits}")
        return {
            "tests": max(program.tests for program in band),
            "key_bits": needed if key_bits is None else key_bits,
        }
    if len(programs) > 1:
        raise UsageError(
            "the two directions of this query need a kernel each; export one at a time, with "
            "--window and the alias of the table that flows past the units"
        )
    if key_bits is not None:
        raise UsageError(
            "--key-bits is for band tests; this query has none, and its keys get the widths that "
            "the files need"
        )
    return {"program": programs[0]}


#: Default sizes of a window kernel.
DEPTH, BANKS = 1 << 12, 8

Out = Annotated[Path, typer.Option("--out", "-o", help="Folder to write to.")]


@group
class KernelArguments:
    """Operator of a kernel, and the size of a window kernel."""

    operator: Operator = option(
        "What the kernel does: range joins, or ROWS window joins.", default=Operator.RANGE
    )
    rows_depth: int | None = option("Window kernel: largest ROWS, a power of two.")
    banks: int | None = option("Window kernel: queue tuples tested per cycle and side.")
    pipelines: int = option("Pipelines that share the memory ports.", default=1)
    pipeline: PipelineArguments

    def config(
        self, units: int, query: BuildQuery, board: Board
    ) -> KernelConfig | WindowKernelConfig:
        """Describe the kernel for a board.

        Raises
        ------
        UsageError
            The options contradict each other, or there is no such build.
        MissingToolError, QueryError, SchemaError, DataError, FileError, DeviceError
            See :meth:`PipelineArguments.config`.
        """
        if self.operator is Operator.WINDOW:
            if query.sql is not None or self.pipeline.modes is not None:
                raise UsageError(
                    "--sql and --modes are for range joins; a window kernel gives pairs"
                )
            if self.pipelines != 1:
                raise UsageError("--pipelines is for range joins; a window kernel has --banks")
            tests, key_bits = self.pipeline.band, self.pipeline.key_bits
            return window_config(board, tests, key_bits, self.rows_depth, self.banks)
        if self.banks is not None or self.rows_depth is not None:
            raise UsageError("--rows-depth and --banks are for --operator window: add it")
        join = self.pipeline.config(units, query)
        from penstock.hw.join.kernel.config import KernelConfig

        with building():
            return KernelConfig.fit(join, self.pipelines, board.port_bits)


def window_config(
    board: Board,
    tests: int | None = None,
    key_bits: int | None = None,
    depth: int | None = None,
    banks: int | None = None,
) -> WindowKernelConfig:
    """Describe a window kernel for a board; see :meth:`KernelArguments.config`."""
    with building():
        from penstock.hw.window.config import WindowConfig
        from penstock.hw.window.kernel.config import WindowKernelConfig
        from penstock.hw.window.memories import placed

        window = WindowConfig(
            depth=DEPTH if depth is None else depth,
            banks=BANKS if banks is None else banks,
            tests=TESTS if tests is None else tests,
            key_bits=KEY_BITS if key_bits is None else key_bits,
        )
        return WindowKernelConfig(window=placed(window, board), word_bits=board.port_bits)


def describe_window(window: WindowConfig) -> str:
    """Describe a window-join operator in a line."""
    test = many(window.tests, "band test") if window.is_band else "equality"
    return (
        f"window join of up to {window.depth} ROWS, {window.banks} banks, {test} of "
        f"{window.key_bits} bits"
    )
