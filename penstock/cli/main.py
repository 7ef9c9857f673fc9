"""``penstock``: the commands, and the one place where errors become exit codes."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from importlib import import_module
from typing import Annotated, Any

import typer

from ..errors import PenstockError, memory_explained
from .examples import CommandGroup

#: What a shell reports for a program ended by Ctrl-C.
_INTERRUPTED = 130
#: Seconds after which an interrupt that was lost in a callback comes again.
_AGAIN_S = 0.01

_VERBOSE = "--verbose"

#: Modules of the commands, and the first lines of their help: `penstock --help` loads none.
COMMANDS = {
    "sql": "Run a query over files: joins on any condition, groups of one table.",
    "explain": "Show the plan of a query: windows, widths, prepared keys, band tests, devices.",
    "devices": "List the devices of this machine or of a server; one that cannot be used says why.",
    "demo": "Join ride orders with vehicle positions nearby: CPU, Spark, and simulated hardware.",
    "synth": "Count the cells of a join pipeline with Yosys, for UltraScale+, and compare with "
    "boards.",
    "export": "Write a kernel for a board: Verilog, register table, C header, kernel.xml, "
    "link.cfg.",
    "plan": "Say how many units or cores a join needs, or what rate a device sustains, and its "
    "latency.",
    "relation": "Build, change and check tables that streams are joined with.",
    "top": "Show rates, windows, latency and lanes of a join that serves metrics.",
    "serve": "Own devices, or rows of a relation, and work for other processes until interrupted.",
    "board": "Run a virtual board, make packages, test a board.",
    "spark": "Run a Spark cluster on this machine; pack what executors need.",
}


class _Commands(CommandGroup):
    """Lists commands by the first lines of their help, and loads the one that is called."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # People also write it behind the command that they call again.
        words = args[: args.index("--")] if "--" in args else args
        if _VERBOSE in words:
            behind = args[len(words) :]
            args = [_VERBOSE, *(word for word in words if word != _VERBOSE), *behind]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, _, words = super().resolve_command(ctx, args)
        return name, typer.main.get_command(import_module(f".{name}", __package__).app), words


app = typer.Typer(
    name="penstock",
    cls=_Commands,
    help="Windowed stream joins on arbitrary predicates: SQL to CPU, simulation and FPGA.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
for _name, _help in COMMANDS.items():
    app.command(_name, help=_help)(lambda: None)


def _print_version(wanted: bool) -> None:
    if wanted:
        from .. import __version__

        typer.echo(f"penstock {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            _VERBOSE,
            help="Log stalls, retries and lost workers; of every command, also behind it.",
        ),
    ] = False,
) -> None:
    _log(logging.INFO if verbose else logging.WARNING)


class _Handler(logging.Handler):
    """Prints records where messages of commands go, beside a progress bar if there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        from .terminal import errors

        errors.print(self.format(record), markup=False, highlight=False)


def _log(level: int) -> None:
    """Print what Penstock logs from this level on."""
    handler = _Handler(level)
    if level < logging.WARNING:
        handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s"))
    logger = logging.getLogger("penstock")
    logger.handlers[:] = [handler]
    logger.setLevel(level)


def run() -> None:
    """Run the command line: the entry point of the console script."""
    sys.unraisablehook = _unraisable
    status = _status()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        status = _unread()
    # Before it ends, the interpreter would look for garbage among all that was imported: 0.3 s.
    gc.freeze()
    sys.exit(status)


def _unraisable(lost: Any) -> None:
    """Let Ctrl-C come again that Python dropped, since it fell into a callback of a weak reference.

    Raised here it would be dropped, too.
    """
    if lost.exc_type is KeyboardInterrupt:
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
    else:
        sys.__unraisablehook__(lost)


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
        # Rich's sign that the reader of its pipe went away.
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
    """End quietly and successfully, since the reader of a pipe has read enough."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _interrupted() -> int:
    return _fail("interrupted; nothing was written", _INTERRUPTED)


def _fail(message: str, status: int) -> int:
    from .terminal import errors

    errors.print(f"penstock: {' '.join(message.split())}", markup=False, highlight=False)
    return status
