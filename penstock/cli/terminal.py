"""Consoles: results go to standard output, everything about them to standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.measure import Measurement
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ..words import count, per_second

#: Soft wrap keeps one message on one line, whatever the width of the terminal.
errors = Console(stderr=True, soft_wrap=True)
results = Console()
if not results.is_terminal:
    # A file or pipe has no width, so tables should not be folded to an assumed one.
    results = Console(width=1 << 12)

#: All columns but the first.
NUMBERS = range(1, 100)


class _Grid(Table):
    """A table whose numbers are broken where the terminal has no room for them, never cut."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.update(max_width=1 << 20)
        if Measurement.get(console, wide, self).minimum > options.max_width:
            for column in self.columns:
                column.no_wrap = False
        yield from super().__rich_console__(console, options)


def table(
    *names: str, rows: Iterable[Sequence[str | Text]] = (), right: Container[int] = ()
) -> Table:
    """Make a table; the columns with these numbers are aligned to the right."""
    grid = _Grid(box=None, show_header=any(names), header_style="bold", pad_edge=False)
    for number, name in enumerate(names):
        is_right = number in right
        justify = "right" if is_right else "left"
        grid.add_column(name, justify=justify, overflow="fold", no_wrap=is_right)
    for row in rows:
        grid.add_row(*row)
    return grid


def width_of(grid: Table) -> int:
    """Columns of a terminal that a table takes if no cell of it is broken."""
    wide = results.options.update(max_width=1 << 20)
    return Measurement.get(results, wide, grid).maximum


def stacked(names: Sequence[str], rows: Sequence[Sequence[Text]]) -> Group:
    """Write each row as lines, a name and its value each, for rows wider than the terminal."""
    parts: list[Text | Table] = []
    for number, row in enumerate(rows, 1):
        parts.append(Text(f"row {count(number)}", style="dim"))
        parts.append(
            table("", "", rows=[(Text(n, "bold"), v) for n, v in zip(names, row, strict=True)])
        )
    return Group(*parts)


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
            shown = per_second(done / elapsed if elapsed else 0.0, "evaluations")
            progress.update(task, completed=done, total=total, rate=shown)

        yield update
