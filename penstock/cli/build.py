"""What ``synth`` and ``export`` share: which pipeline is to be built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.cli.inputs import Inputs, read_inputs
from penstock.errors import MissingToolError, UsageError
from penstock.host.batch import BatchJoin
from penstock.host.device.registry import open_device
from penstock.host.prepare import layout, stream_values, window_keys
from penstock.program import BandProgram, GeneralProgram, Mode, Program
from penstock.query.plan import other
from penstock.rewrite.forms import JoinForm, join_form

if TYPE_CHECKING:
    from penstock.hw.join.config import JoinConfig

#: Keys of a build are rounded up to a multiple of this, so that it serves more than the files it
#: was made from.
KEY_STEP_BITS = 8

#: What a build has unless options say otherwise.
TESTS, KEY_BITS = 2, 32

#: Width of the window-side value that sum, min and max of a band build fold.
VALUE_BITS = 32

Units = Annotated[int, typer.Option(help="Join units of a pipeline.")]
Band = Annotated[
    int | None,
    typer.Option(
        "--band", help="Run-time band tests, 1 to 8: serves every predicate with so many or fewer."
    ),
]
KeyBits = Annotated[
    int | None,
    typer.Option(help="Width of a band code (with --sql at least what the files need)."),
]
Sql = Annotated[
    str | None,
    typer.Option("--sql", help="Build for this query; --table names its files."),
]
SqlTables = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        "-t",
        help="NAME=FILE; repeat. Keys get the widths that the files' values need, rounded up to "
        f"a multiple of {KEY_STEP_BITS} bits.",
    ),
]
Modes = Annotated[
    str | None,
    typer.Option(
        help="What tasks can ask for besides pairs, separated by commas: count, exists, sum, min, "
        "max, nearest. Of a query's general form, those that its value allows."
    ),
]
Window = Annotated[
    str | None,
    typer.Option(help="ALIAS of the table that flows past the units; by default the cheaper."),
]


@dataclass(frozen=True)
class Query:
    """The options that describe a query."""

    sql: str | None
    tables: list[str] | None = None
    time: list[str] | None = None
    rows: str | None = None
    within: str | None = None
    param: list[str] | None = None
    scale: list[str] | None = None
    time_zone: str | None = None
    no_band: bool = False
    window: str | None = None


def join_config(
    query: Query,
    *,
    units: int,
    tests: int | None,
    key_bits: int | None,
    modes: str | None = None,
) -> JoinConfig:
    """The pipeline that the options describe.

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
    try:
        from penstock.hw.join.config import JoinConfig
    except ModuleNotFoundError as error:
        raise missing(error) from None
    if query.sql is None:
        if query.tables or query.window or query.no_band:
            raise UsageError("--table, --window and --no-band describe a query: add --sql")
        given: dict[str, Any] = {
            "tests": TESTS if tests is None else tests,
            "key_bits": KEY_BITS if key_bits is None else key_bits,
        }
    elif tests is not None:
        raise UsageError("--band and --sql both say what to build; give one of them")
    else:
        given = _arguments(_programs(query), key_bits)
    chosen = _modes(modes)
    if "program" not in given and any(mode.needs_value for mode in chosen):
        given["value_bits"] = VALUE_BITS
    try:
        return JoinConfig(units=units, modes=chosen, **given)
    except ValueError as error:
        raise UsageError(str(error)) from None


def missing(error: ModuleNotFoundError) -> MissingToolError:
    """The error to raise where a package of the ``rtl`` extra is not installed."""
    return MissingToolError(
        f"hardware is generated with {error.name}, which is not installed; "
        "run `pip install 'penstock[rtl]'`"
    )


def describe(join: JoinConfig) -> str:
    """What a build is, in a line."""
    names = [mode.value for mode in Mode if mode in join.modes]
    folds = f", {', '.join(names)}" if len(names) > 1 else ""
    if join.program is None:
        tests = "1 band test" if join.tests == 1 else f"{join.tests} band tests"
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


def _programs(query: Query) -> list[Program]:
    """The programs that a query is run with, one per direction, without repetition."""
    assert query.sql is not None
    given = read_inputs(
        query.sql,
        query.tables or [],
        query.time,
        query.rows,
        query.within,
        query.param,
        query.scale,
        query.time_zone,
    )
    with open_device("cpu") as device:
        join = BatchJoin(given.query, given.tables(), device, band=not query.no_band)
    forms = [part.form for part in join.joins]
    if query.window is not None:
        side = _side(given, query.window)
        forms = [join_form(given.query.predicate, side, band=not query.no_band)]
    programs: dict[Program, None] = dict.fromkeys(_program(form, join) for form in forms)
    return list(programs)


def _side(given: Inputs, alias: str) -> str:
    for side, name in given.query.names.items():
        if name == alias:
            return side
    known = " and ".join(given.query.names.values())
    raise UsageError(f"--window takes one of the query's tables, {known}, not {alias!r}")


def _program(form: JoinForm, join: BatchJoin) -> Program:
    stream, window = join.sides[other(form.window)], join.sides[form.window]
    widths = range(KEY_STEP_BITS, 64 + 1, KEY_STEP_BITS)
    made = layout(
        form,
        window_keys(form, window.columns, len(window)),
        stream_values(form, stream.columns, len(stream)),
        widths,
        spare_bits=KEY_STEP_BITS,
    )
    return made.program


def _arguments(programs: list[Program], key_bits: int | None) -> dict[str, Any]:
    """Arguments of a build that runs all of these programs."""
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
    (program,) = programs
    assert isinstance(program, GeneralProgram)
    return {"program": program}
