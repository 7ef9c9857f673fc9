"""A figure beside its target, and the table of such figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.markup import escape
from rich.table import Table


@dataclass(frozen=True)
class Row:
    """One figure.

    Parameters
    ----------
    what : str
    measured : str
    target : str
        Empty where the figure is reported only.
    met : bool or None
        None without a target, or where nothing was measured.
    baseline : str
        The same of what it is compared with.
    values : dict
        The numbers behind the texts.
    """

    what: str
    measured: str
    target: str = ""
    met: bool | None = None
    baseline: str = ""
    values: Any = None


def table(rows: list[Row], title: str, baseline: str) -> Table:
    """The rows as a table.

    Parameters
    ----------
    rows : list of Row
    title : str
    baseline : str
        Heading of the column of baselines.
    """
    shown = Table(title=title)
    for heading in ("what", "measured", "target", "", baseline):
        shown.add_column(heading, overflow="fold")
    for row in rows:
        verdict = {None: "", True: "met", False: "MISSED"}[row.met]
        said = row.what, row.measured, row.target, verdict, row.baseline
        shown.add_row(*map(escape, said))
    return shown
