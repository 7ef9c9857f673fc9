"""Consoles: results go to standard output, everything about them to standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..plan.shown import Fact

#: Soft wrap keeps one message on one line, whatever the width of the terminal.
errors = Console(stderr=True, soft_wrap=True)
results = Console()
if not results.is_terminal:
    # A file or pipe has no width, so tables should not be folded to an assumed one.
    results = Console(width=160)

#: All columns but the first.
NUMBERS = range(1, 100)


def table(*names: str, rows: Iterable[Sequence[str]] = (), right: Container[int] = ()) -> Table:
    """Make a table; the columns with these numbers are aligned to the right."""
    grid = Table(box=None, show_header=any(names), header_style="bold", pad_edge=False)
    for number, name in enumerate(names):
        grid.add_column(name, justify="right" if number in right else "left", overflow="fold")
    for row in rows:
        grid.add_row(*row)
    return grid


def say(text: str) -> None:
    """Print a line of the result and flush it, for programs that wait for the line."""
    results.print(text, markup=False, highlight=False, soft_wrap=True)
    sys.stdout.flush()


def say_json(report: Any) -> None:
    """Print a result as JSON, for programs."""
    typer.echo(json.dumps(report, indent=2))


def heading(text: str) -> None:
    """Print the name of a part of the result."""
    results.print(f"\n{text}", style="bold", markup=False, highlight=False)


def line(name: str, text: str) -> None:
    """Print a named line of a part of the result."""
    say(f"{name:12} {text}")


def facts(lines: Iterable[Fact]) -> None:
    """Print facts of a plan, a line each."""
    for name, text in lines:
        line(name, text)


def note(text: str) -> None:
    """Print a line about the result."""
    errors.print(text, style="dim", highlight=False)


@contextmanager
def meter(shown: bool) -> Iterator[Callable[[int, int], None]]:
    """Show how many pairs of all are done, on standard error if that is a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    disabled = not (shown and errors.is_terminal)
    with Progress(*columns, console=errors, transient=True, disable=disabled) as progress:
        task = progress.add_task("joining", total=None, rate="")

        def update(done: int, total: int) -> None:
            elapsed = progress.tasks[0].elapsed
            rate = done / elapsed / 1e9 if elapsed else 0.0
            shown = f"{rate:.2f} G evaluations/s"
            progress.update(task, completed=done, total=total, rate=shown)

        yield update


def count(number: int) -> str:
    """Write a number with its thousands separated."""
    return f"{number:,}"


def many(number: int, thing: str) -> str:
    """Write a number of things: 1 row, 2,000 rows."""
    return f"{count(number)} {thing}" + ("" if number == 1 else "s")
