"""Tiles and tables of a page, as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape

from penstock.words import span

from ..metrics.report import lag_s
from .history import History, Step

#: Columns of the table of a join's sources, of its lanes, and of its workers.
_SOURCES = "source", "rows/s", "rows", "late", "watermark behind its rows", "behind the foremost"
_LANES = "lane", "share of the work", "busy", "orders", "failures", ""
_WORKERS = "worker", "share of the rows", "rows/s", "rows", "groups or window rows", "clock lag"


def behind(step: Step, unit: str) -> dict[str, float]:
    """How far each source's watermark is behind the foremost, in seconds where they are times."""
    marks = step.values("watermark")
    first = round(max(marks.values(), default=0.0))
    lags = {alias: first - round(mark) for alias, mark in marks.items()} if len(marks) > 1 else {}
    return {alias: lag_s(lag, unit) or lag for alias, lag in lags.items()}


def tiles(step: Step, unit: str) -> str:
    """Make the tiles of a join."""
    boxes = (
        f"<div><span>{escape(name)}</span><b>{escape(value)}</b><i>{escape(more)}</i></div>"
        for name, value, more in _tiles(step, unit)
    )
    return f'<div class="tiles">{"".join(boxes)}</div>'


def _tiles(step: Step, unit: str) -> Iterator[tuple[str, str, str]]:
    """Yield names, values, and what more there is to say."""
    arrived, late = step.rates("arrived_rows_total"), step.values("late_rows_total")
    yield "rows in", _short(sum(arrived.values()), "/s"), ", ".join(arrived)
    so_far = f"{step.value('rows_total'):,.0f} so far"
    yield "rows out", _short(step.rates("rows_total")[""], "/s"), so_far
    tested, pruned = step.value("evaluations_total"), step.value("pruned_pairs_total")
    if tested or pruned:
        share = f"{pruned / (tested + pruned):.0%} of all pruned"
        more = share if pruned else f"{tested:,.0f} so far"
        yield "pairs tested", _short(step.rates("evaluations_total")[""], "/s"), more
    if rows := step.value("window_rows"):
        yield "rows in windows", _short(rows), ""
    if parts := step.values("memory_bytes"):
        limit = step.value("memory_limit_bytes")
        more = f"of {_short(limit, 'B')}" if limit else "no budget"
        yield "memory", _short(sum(parts.values()), "B"), more
    if spans := behind(step, unit):
        slowest = max(spans, key=spans.__getitem__)
        more = f"{_span(spans[slowest], unit)} behind" if spans[slowest] else ""
        yield "waits for", slowest if more else "nobody", more
    if (slow := step.value("latency_seconds", "0.99")) > 0:
        yield "latency, 99 %", _span(slow, "s"), "since the start"
    yield "late rows", _short(sum(late.values())), ", ".join(a for a, n in late.items() if n)


def tables(step: Step, minute: Step, unit: str) -> str:
    """Make the tables of a join; shares of work are those of a minute."""
    arrived, late = step.rates("arrived_rows_total"), step.values("late_rows_total")
    lags = step.values("watermark_lag_seconds" if unit else "watermark_lag")
    spans = behind(step, unit)
    busy, worked = minute.rates("lane_busy_seconds_total"), minute.rates("worker_rows_total")
    sources = (
        (
            *(escape(alias), _short(arrived[alias]), _exact(rows), _exact(late.get(alias, 0))),
            _span(lags[alias], unit) if alias in lags else "-",
            _span(spans[alias], unit) if spans.get(alias) else "-",
        )
        for alias, rows in step.values("arrived_rows_total").items()
    )
    lanes = (
        (
            *(escape(lane), _bar(busy, lane), f"{busy[lane]:.0%}", _exact(queued)),
            _exact(step.value("lane_failures_total", lane)),
            "parked" if step.value("lane_parked", lane) else "",
        )
        for lane, queued in step.values("lane_queue").items()
    )
    workers = (
        (
            *(escape(one), _bar(worked, one), _short(worked[one]), _exact(rows)),
            *(_exact(step.value(f"worker_{name}", one)) for name in ("entries", "clock_lag")),
        )
        for one, rows in step.values("worker_rows_total").items()
    )
    return _table(_SOURCES, sources) + _table(_LANES, lanes) + _table(_WORKERS, workers)


def all_figures(history: History) -> str:
    """Make the table of all metrics."""
    rows = (
        (
            escape(history.texts.get(metric.removesuffix("_total"), ""))
            + f"<br><code>penstock_{escape(metric)}</code>",
            escape(label),
            f'<data id="{escape(f"{metric} {label}".strip())}" value="{n}">{_exact(n)}</data>',
        )
        for metric, by_label in history.over(0).now.items()
        for label, n in by_label.items()
    )
    return f"<h2>All figures</h2>{_table(('figure', 'of', 'now'), rows)}"


def _table(head: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    """Make a table of cells in HTML; none without rows."""
    heads = "".join(f"<th>{one}</th>" for one in head)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wide"><table><tr>{heads}</tr>{body}</table></div>' if body else ""


def _bar(work: Mapping[str, float], name: str) -> str:
    share = work[name] / (sum(work.values()) or 1)
    return f'<span class="bar" style="--share:{share:.3f}"></span>{share:.0%}'


def _span(amount: float, unit: str) -> str:
    """Write seconds, or a span of times that are plain integers."""
    return span(amount) if unit else f"{amount:,.0f}"


def _short(number: float, noun: str = "") -> str:
    """Write a number in a few characters: 950, 12.3 k, 1.23 M."""
    for scale, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= max(scale, 1e4):
            return f"{number / scale:,.3g} {name}{noun}"
    return f"{number:,.0f} {noun}".rstrip()


def _exact(number: float) -> str:
    return f"{number:,.0f}" if number % 1 == 0 else f"{number:,.4g}"
