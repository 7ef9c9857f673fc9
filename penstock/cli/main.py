"""``penstock``: the commands, and the one place where errors become exit codes."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from penstock.cli import board, demo, devices, explain, export, plan, serve, spark, sql, synth, top
from penstock.cli.terminal import errors
from penstock.errors import PenstockError, memory_explained

#: What a shell reports for a program ended by Ctrl-C.
_INTERRUPTED = 130

app = typer.Typer(
    name="penstock",
    help="Windowed stream joins on arbitrary predicates: SQL to CPU, simulation and FPGA.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("sql")(sql.command)
app.command("explain")(explain.command)
app.command("devices")(devices.command)
app.command("demo")(demo.command)
app.command("synth")(synth.command)
app.command("export")(export.command)
app.command("plan")(plan.command)
app.command("top")(top.command)
app.command("serve")(serve.command)
app.add_typer(board.app, name="board")
app.add_typer(spark.app, name="spark")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"penstock {version('penstock')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


def run() -> None:
    """Entry point of the console script."""
    status = _status()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        status = _unread()
    sys.exit(status)


def _status() -> int:
    try:
        with memory_explained():
            result = app(standalone_mode=False)
        # Typer turns Ctrl-C into this status and says nothing.
        return _interrupted() if result == _INTERRUPTED else int(result or 0)
    except PenstockError as error:
        return _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _interrupted()
    except BrokenPipeError:
        return _unread()
    except SystemExit as error:
        # How Rich says that the reader of its pipe went away.
        if isinstance(error.__context__, BrokenPipeError):
            return _unread()
        raise
    except Exception as error:
        # Wrong options of a command: typer's own exceptions know how to show themselves.
        show = getattr(error, "show", None)
        if show is None:
            raise
        show()
        return int(getattr(error, "exit_code", 2))


def _unread() -> int:
    """The reader of a pipe has read enough: quiet, and no failure."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _interrupted() -> int:
    return _fail("interrupted; nothing was written", _INTERRUPTED)


def _fail(message: str, status: int) -> int:
    errors.print(f"penstock: {' '.join(message.split())}", markup=False, highlight=False)
    return status
