"""``penstock``: the commands, and the one place where errors become exit codes."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from penstock.cli import demo, devices, explain, sql
from penstock.cli.terminal import errors
from penstock.errors import PenstockError

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


@app.callback()
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        from importlib.metadata import version as installed

        typer.echo(f"penstock {installed('penstock')}")
        raise typer.Exit


def run() -> None:
    """Entry point of the console script."""
    sys.exit(_status())


def _status() -> int:
    try:
        result = app(standalone_mode=False)
        return result if isinstance(result, int) else 0
    except PenstockError as error:
        return _fail(str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted; nothing was written", _INTERRUPTED)
    except BrokenPipeError:
        # The reader of a pipe went away; point stdout elsewhere so that the exit is quiet.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MemoryError:
        return _fail("out of memory; write the result with --out, or shorten the window", 1)
    except Exception as error:
        # Wrong options of a command: typer's own exceptions know how to show themselves.
        show = getattr(error, "show", None)
        if show is None:
            raise
        show()
        return int(getattr(error, "exit_code", 2))


def _fail(message: str, status: int) -> int:
    errors.print(f"penstock: {' '.join(message.split())}", markup=False, highlight=False)
    return status
