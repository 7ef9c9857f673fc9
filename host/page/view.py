"""The page: tiles, charts and tables of one join, and links to the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from bokeh.document import Document
from bokeh.layouts import column
from bokeh.models import (
    ColumnDataSource,
    Div,
    InlineStyleSheet,
    NumeralTickFormatter,
)
from bokeh.plotting import figure
from jinja2 import Template

from .history import EVERY_S, KEPT, History, Step

_FOLDER = Path(__file__).parent
#: Colours of lines and of work: those of Okabe and Ito, which all eyes tell apart.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#666666")
#: Seconds that the timeline of lanes shows.
_TIMELINE_S = 10.0
#: Seconds without a report after which the page says so.
_SILENT_S = 5 * EVERY_S


@dataclass(frozen=True)
class Chart:
    """Lines over time.

    Parameters
    ----------
    title : str
    ticks : str
        Format of numbers of the axis.
    points : callable
        Gives the heights of the lines of a step, by name; none if the join has no such figures.
    """

    title: str
    ticks: str
    points: Callable[[Step], Mapping[str, float]]


def _rates(**names: str) -> Callable[[Step], Mapping[str, float]]:
    """Rates of metrics without labels, by the names of their lines."""

    def points(step: Step) -> Mapping[str, float]:
        known = {line: step.rates(metric).get("") for line, metric in names.items()}
        return {line: rate for line, rate in known.items() if rate is not None}

    return points


def _rows(step: Step) -> Mapping[str, float]:
    return {**step.rates("arrived_rows_total"), **_rates(out="rows_total")(step)}


CHARTS = (
    Chart("Rows per second", "0.[0]a", _rows),
    Chart(
        "Pairs per second",
        "0.[0]a",
        _rates(tested="evaluations_total", pruned="pruned_pairs_total"),
    ),
    Chart("Rows in windows", "0.[0]a", lambda step: step.values("window_rows")),
    Chart("Memory", "0.[0] b", lambda step: step.values("memory_bytes")),
)


def _now(at: float) -> float:
    """Milliseconds of a moment on this machine's clock on the wall, as axes count them."""
    return (at + time.localtime(at).tm_gmtoff) * 1e3


class Lines:
    """A chart on the page."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self._sources: dict[str, ColumnDataSource] = {}
        self.figure = figure(
            title=chart.title, height=220, sizing_mode="stretch_width", x_axis_type="datetime",
            toolbar_location=None, tools="", background_fill_color=None, border_fill_color=None,
            outline_line_color=None, min_border_right=12,
        )  # fmt: skip
        self.figure.yaxis.formatter = NumeralTickFormatter(format=chart.ticks)
        self.figure.y_range.start = 0  # type: ignore[union-attr]
        self.figure.x_range.follow = "end"  # type: ignore[union-attr]
        self.root = column(
            self.figure, css_classes=["card"], visible=False, sizing_mode="stretch_width"
        )

    def add(self, steps: Sequence[Step]) -> None:
        """Draw further steps."""
        new: dict[str, tuple[list[float], list[float]]] = {}
        for step in steps:
            for line, height in self.chart.points(step).items():
                places, heights = new.setdefault(line, ([], []))
                places.append(_now(step.now.at))
                heights.append(height)
        for line, (places, heights) in new.items():
            if line not in self._sources:
                self._begin(line)
            self._sources[line].stream({"x": places, "y": heights}, rollover=KEPT)

    def _begin(self, line: str) -> None:
        colour = _COLOURS[len(self._sources) % len(_COLOURS)]
        source = self._sources[line] = ColumnDataSource({"x": [], "y": []})
        self.figure.line("x", "y", source=source, color=colour, line_width=2, legend_label=line)
        self.figure.legend.location = "top_left"
        self.root.visible = True


def _tile(name: str, value: str) -> str:
    return f'<div class="tile"><span>{escape(name)}</span><b>{escape(value)}</b></div>'


class View:
    """The page as one browser shows it.

    Parameters
    ----------
    document : Document
    joins : mapping of str to History
        All joins of the process; it changes.
    """

    def __init__(self, document: Document, joins: Mapping[str, History]) -> None:
        self._document, self._joins = document, joins
        arguments = document.session_context.request.arguments  # type: ignore[union-attr]
        self._arguments = {name: values[-1].decode() for name, values in arguments.items()}
        self._shown: History | None = None
        self._seen = 0
        style = InlineStyleSheet(css=(_FOLDER / "style.css").read_text())
        self._head = Div(sizing_mode="stretch_width", stylesheets=[style], name="head")
        self._charts = [Lines(chart) for chart in CHARTS]
        grid = column(
            *(one.root for one in self._charts),
            sizing_mode="stretch_width",
            css_classes=["grid"],
            stylesheets=[style],
        )
        self._root = column(self._head, grid, sizing_mode="stretch_width", stylesheets=[style])

    def begin(self) -> None:
        """Show the page, and keep it up to date."""
        self._document.title = "Penstock"
        self._document.template = Template((_FOLDER / "page.html").read_text())
        self._document.add_root(self._root)
        self._document.add_periodic_callback(self.update, round(EVERY_S * 1e3))
        self.update()

    def update(self) -> None:
        """Show what has come since the last call."""
        name = self._arguments.get("join", next(iter(self._joins), ""))
        history = self._joins.get(name)
        if history is None:
            self._head.text = "No join has reported yet."
            return
        steps = list(history.steps(self._seen))
        self._seen = history.count
        for chart in self._charts:
            chart.add(steps)
        step = history.over(1)
        assert step is not None
        self._head.text = "".join(
            _tile(name, f"{step.values(metric)['']:,.0f}")
            for name, metric in (
                ("rows out", "rows_total"),
                ("pairs tested", "evaluations_total"),
                ("rows in windows", "window_rows"),
            )
        )
