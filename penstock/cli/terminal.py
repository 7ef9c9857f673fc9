"""Consoles: results go to standard output, everything about them to standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

#: Soft wrap keeps one message on one line, whatever the width of the terminal.
errors = Console(stderr=True, soft_wrap=True)
results = Console()
if not results.is_terminal:
    # A file or pipe has no width; tables should not be folded for one that was assumed.
    results = Console(width=160)


class Meter:
    """Progress of a join, in pairs."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task("joining", total=None, rate="")

    def update(self, done: int, total: int) -> None:
        task = self._progress.tasks[0]
        rate = done / task.elapsed if task.elapsed else 0.0
        self._progress.update(
            self._task, completed=done, total=total, rate=f"{rate / 1e9:.2f} G evaluations/s"
        )


@contextmanager
def meter(shown: bool) -> Iterator[Meter]:
    """A progress bar on standard error; only where that is a terminal."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeElapsedColumn(),
    )
    disabled = not (shown and errors.is_terminal)
    with Progress(*columns, console=errors, transient=True, disable=disabled) as progress:
        yield Meter(progress)


def count(number: int) -> str:
    """A number with thousands separated."""
    return f"{number:,}"
