"""The page as one browser has it: tiles, findings, charts and tables of a join."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from bokeh.document import Document
from bokeh.models import (
    Column,
    ColumnDataSource,
    CustomJSTickFormatter,
    Div,
    FactorRange,
    InlineStyleSheet,
    Legend,
    Range1d,
)
from bokeh.plotting import figure
from jinja2 import Template

from .history import EVERY_S, KEPT, MINUTE, History, Step
from .tables import all_figures, behind, tables, tiles

_FOLDER = Path(__file__).parent
_TEMPLATE, _STYLE = ((_FOLDER / name).read_text("utf-8") for name in ("page.html", "style.css"))
#: Colours of lines and of work: those of Okabe and Ito, which all eyes tell apart.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#8B6F00")
#: Work that has its own colour on every page, in the order of the colours.
_WORK = ("rows", "task", "sync", "pairs", "results", "push", "record", "fold")
#: Writes the ticks of an axis: 950, 12 k, 1.5 M.
_TICKS = """
  const [scale, name] = [[1e9, " G"], [1e6, " M"], [1e3, " k"]].find(s => Math.abs(tick) >= s[0])
    ?? [1, ""]
  return +(tick / scale).toPrecision(3) + name
"""
#: Most seconds that the timeline of lanes shows.
_TIMELINE_S = 10.0
#: Seconds without a report after which the page says so.
_SILENT_S = 5 * EVERY_S
#: Lines that a chart has at most; of more, the mean and both ends are drawn.
_MOST_LINES = len(_COLOURS)


#: Lines of two charts, and their metrics.
_PAIRS = {
    "in the window": "pairs_in_window_total",
    "tested": "evaluations_total",
    "pruned": "pruned_pairs_total",
}
_KEYS = {"all": "lookup_sought_total", "in memory": "lookup_hits_total"}


class Chart(NamedTuple):
    """Lines over time: their title, and what gives their heights by name, of a step."""

    title: str
    points: Callable[[Step], Mapping[str, float]]


def _rates(*labelled: str, **plain: str) -> Callable[[Step], Mapping[str, float]]:
    """Rates of metrics: by label, or without labels by the names of their lines."""

    def points(step: Step) -> Mapping[str, float]:
        rates = {line: step.rates(name).get("", 0.0) for line, name in plain.items()}
        return rates | {k: rate for name in labelled for k, rate in step.rates(name).items()}

    return points


def _values(name: str) -> Callable[[Step], Mapping[str, float]]:
    """Numbers of a metric by label."""
    return lambda step: step.values(name)


def _memory(step: Step) -> Mapping[str, float]:
    limit = step.values("memory_limit_bytes")
    return step.values("memory_bytes") | ({"budget": limit[""]} if limit else {})


def _latency(step: Step) -> Mapping[str, float]:
    quantiles = step.values("latency_seconds").items()
    return {f"{float(q):.0%}": s * 1e3 for q, s in quantiles if s == s}


def _charts(history: History) -> list[Chart]:
    """Charts of a join, or of a server: one per metric. They appear once a line is not 0."""
    metrics = history.over(0).now
    if "evaluations_total" in metrics:
        unit = "s" if history.unit else "units of time"
        return [
            Chart("Rows in per second", _rates("arrived_rows_total")),
            Chart("Rows out per second", _rates(out="rows_total")),
            Chart("Pairs per second", _rates(**_PAIRS)),
            Chart(f"Watermark behind the foremost, {unit}", lambda s: behind(s, history.unit)),
            Chart("Latency, ms: quantiles since the start", _latency),
            Chart("Rows in windows", _values("window_rows")),
            Chart("Memory, bytes", _memory),
            Chart("Seconds of tasks per second, by lane", _rates("lane_busy_seconds_total")),
            Chart("Late rows per second", _rates("late_rows_total")),
            Chart("Rows per second by worker", _rates("worker_rows_total")),
            Chart("Keys looked up per second", _rates(**_KEYS)),
        ]
    return [
        Chart(f"{history.texts[name.removesuffix('_total')].rstrip('.')}, per second", _rates(name))
        if name.endswith("_total")
        else Chart(history.texts[name].rstrip("."), _values(name))
        for name in metrics
    ]


def _axis_ms(at: float) -> float:
    """Convert seconds since 1970 to what axes write as this machine's clock on the wall."""
    return (at + time.localtime(at).tm_gmtoff) * 1e3


def _few(heights: Mapping[str, float]) -> Mapping[str, float]:
    if len(heights) <= _MOST_LINES:
        return heights
    values = heights.values()
    mean = sum(values) / len(values)
    return {"most": max(values), "mean": mean, "least": min(values)}


def _figure(title: str, **options: Any) -> Any:
    shown: Any = figure(
        title=title, sizing_mode="stretch_width", x_axis_type="datetime", toolbar_location=None,
        tools="", background_fill_color=None, border_fill_color=None, outline_line_color=None,
        min_border_right=16, visible=False, css_classes=["figure"],
        stylesheets=[InlineStyleSheet(css=_STYLE)], **options,
    )  # fmt: skip
    legend: Any = Legend(
        orientation="horizontal", ncols=4, background_fill_color=None, border_line_color=None,
        margin=0, glyph_width=12, label_text_font_size="11px",
    )  # fmt: skip
    shown.add_layout(legend, "above")
    shown.title.text_font_size = "13px"
    shown.grid.grid_line_alpha = 0.5
    shown.xaxis.formatter.context = None  # the date
    shown.xaxis.ticker.desired_num_ticks = 4
    return shown


class Lines:
    """A chart on the page."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self.figure = _figure(chart.title, height=210)
        self.figure.yaxis.formatter = CustomJSTickFormatter(code=_TICKS)
        self.figure.y_range.start = 0
        self._sources: dict[str, ColumnDataSource] = {}

    def add(self, steps: Sequence[Step]) -> None:
        """Draw further steps."""
        new: dict[str, list[tuple[float, float]]] = {}
        for step in steps:
            heights = _few(self.chart.points(step))
            if new or self._sources or any(heights.values()):  # from the first that is not 0
                for line, height in heights.items():
                    new.setdefault(line, []).append((_axis_ms(step.ended), height))
        for line, points in new.items():
            if line not in self._sources:
                self._begin(line)
            x, y = zip(*points, strict=True)
            self._sources[line].stream({"x": x, "y": y}, rollover=KEPT)

    def _begin(self, line: str) -> None:
        colour = _COLOURS[len(self._sources) % len(_COLOURS)]
        source = self._sources[line] = ColumnDataSource({"x": [], "y": []})
        label: Any = {"legend_label": line} if line else {}
        self.figure.line("x", "y", source=source, color=colour, line_width=2, **label)
        self.figure.visible = True


class Timeline:
    """The latest work of lanes and devices, a row each."""

    def __init__(self) -> None:
        self._source = ColumnDataSource({name: [] for name in ("track", "l", "r", "c", "work")})
        self._x, self._y = Range1d(), FactorRange()
        self.figure = _figure(
            "Lanes: the latest work recorded",
            height=120,
            x_range=self._x,
            y_range=self._y,
            name="lanes",
        )
        self.figure.hbar(
            y="track", left="l", right="r", height=0.8, color="c", legend_field="work",
            source=self._source,
        )  # fmt: skip
        self._colours = dict(zip(_WORK, _COLOURS, strict=True))

    def show(self, history: History) -> None:
        """Show the latest spans."""
        end = max((span[3] for span in history.spans), default=0.0)
        spans = [span for span in history.spans if span[3] > end - _TIMELINE_S]
        tracks = sorted({span[0] for span in spans})
        for work in sorted({span[1] for span in spans} - self._colours.keys()):
            self._colours[work] = _COLOURS[len(self._colours) % len(_COLOURS)]
        self.figure.visible = bool(spans)
        self.figure.height = 100 + 22 * len(tracks)
        self._y.factors = tracks[::-1]  # type: ignore[assignment]
        begin = min((span[2] for span in spans), default=end)
        self._x.update(start=_axis_ms(begin), end=_axis_ms(end))
        self._source.data = {
            "track": [span[0] for span in spans],
            "l": [_axis_ms(span[2]) for span in spans],
            "r": [_axis_ms(span[3]) for span in spans],
            "c": [self._colours[span[1]] for span in spans],
            "work": [span[1] for span in spans],
        }


class View:
    """The page as one browser has it.

    Parameters
    ----------
    document : Document
    joins : mapping of str to History
        All joins of the page; it changes.
    """

    def __init__(self, document: Document, joins: Mapping[str, History]) -> None:
        self._document, self._joins = document, joins
        arguments = document.session_context.request.arguments  # type: ignore[union-attr]
        self._arguments = {k: one[-1].decode(errors="replace") for k, one in arguments.items()}
        self._history: History | None = None
        self._seen = 0
        self._charts: list[Lines] = []
        self._timeline = Timeline()
        style: Any = {"stylesheets": [InlineStyleSheet(css=_STYLE)], "sizing_mode": "stretch_width"}
        # A name with dollars is no formula.
        self._head = Div(**style, css_classes=["head"], disable_math=True)
        self._grid = Column(**style, css_classes=["grid"])
        self._foot = Div(**style, css_classes=["foot"], disable_math=True)
        self._root = Column(children=[self._head, self._grid, self._foot], **style)

    def begin(self) -> None:
        """Show the page, and keep it up to date."""
        self._document.title = "Penstock"
        self._document.template = Template(_TEMPLATE)
        self._document.add_root(self._root)
        self._document.add_periodic_callback(self.update, round(EVERY_S * 1e3))
        self.update()

    def update(self) -> None:
        """Show what has come since the last call."""
        running = (name for name, one in self._joins.items() if one.ended is None)
        name = self._arguments.setdefault("join", next(running, next(iter(self._joins), "")))
        history = self._joins.get(name)
        if history is None:
            self._arguments.pop("join")
            self._head.text = "No join has reported yet."
            return
        if history is not self._history:  # the first one of this name, or another one
            self._history, self._seen = history, 0
            self._charts = [Lines(one) for one in _charts(history)]
            self._grid.children = [*(one.figure for one in self._charts), self._timeline.figure]
        steps = list(history.steps(self._seen))
        self._seen = history.count
        for chart in self._charts:
            chart.add(steps)
        self._timeline.show(history)
        top, foot, step = self._top(name, history), all_figures(history), history.over(1)
        if "evaluations_total" in step.now:
            top += tiles(step, history.unit)
            foot = tables(step, history.over(MINUTE), history.unit) + foot
        self._head.text, self._foot.text = top, foot

    def _top(self, shown: str, history: History) -> str:
        """Make the line of joins, the state of the one that is shown, and its findings."""
        links = []
        for name, one in self._joins.items():
            link = escape(urlencode({**self._arguments, "join": name}))
            state = ' class="shown"' if name == shown else ""
            ended = "" if one.ended is None else " (ended)"
            links.append(f'<a href="?{link}"{state}>{escape(name)}{ended}</a>')
        silent = time.time() - history.over(0).ended
        state = "running"
        if history.ended is not None:
            state = time.strftime("ended at %H:%M:%S", time.localtime(history.ended))
        elif silent > _SILENT_S:
            state = f"no report for {silent:.0f} s"
        findings = "".join(
            f"<li><b>{escape(text)}</b><br>{escape(remedy)}</li>"
            for text, remedy in history.findings
        )
        return f'<nav>{"".join(links)}<span class="state">{state}</span></nav>' + (
            f"<ul>{findings}</ul>" if findings else ""
        )
