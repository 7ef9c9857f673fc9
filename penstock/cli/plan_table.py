"""Prints the table of ``penstock plan``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .terminal import count, results, table

#: A value as name, number and unit.
Line = Callable[[Any], tuple[str, str, str]]


def show(report: Mapping[str, Any]) -> None:
    """Print the table, and a warning if the load is too much."""
    shown = table("", "", "", right={1})
    for key, value in report.items():
        shown.add_row(*_LINES[key](value))
    results.print(shown)
    if report["utilisation"] > 1:
        results.print("overloaded: latency grows without end", style="red")


def _number(name: str, unit: str = "") -> Line:
    return lambda value: (name, "none" if value is None else _rounded(value), unit)


def _rounded(value: float) -> str:
    return count(round(value)) if value >= 100 or value == round(value) else f"{value:.3g}"


def _time(name: str) -> Line:
    def row(value: float | None) -> tuple[str, str, str]:
        if value is None:
            return name, "none", ""
        for scale, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
            if value >= scale:
                return name, f"{value / scale:,.4g}", unit
        return name, f"{value * 1e9:.3g}", "ns"

    return row


def _share(name: str) -> Line:
    return lambda value: (name, f"{value:.1%}", "")


#: How each entry of the report is shown.
_LINES: dict[str, Line] = {
    "units": _number("units of a pipeline"),
    "clock_mhz": _number("clock", "MHz"),
    "pipelines": _number("pipelines"),
    "lanes": _number("cores"),
    "lane_evaluations_per_s": _number("measured: a core", "evaluations/s"),
    "batch_s": _time("measured: host, a batch"),
    "tuple_s": _time("measured: host, a tuple"),
    "task_s": _time("measured: host, a task"),
    "row_s": _time("measured: host, a joined row"),
    "rate_per_s": _number("rate of both streams", "tuples/s"),
    "ratio": lambda value: ("ratio of the rates", f"{value:g}", ""),
    "before_s": _time("window before"),
    "after_s": _time("window after"),
    "latency_target_s": _time("latency target"),
    "evaluations_per_s": _number("evaluations", "per s"),
    "units_needed": _number("units needed"),
    "cores_needed": _number("cores needed"),
    "sustained_rate_per_s": _number("sustained rate", "tuples/s"),
    "utilisation": _share("utilisation"),
    "evaluating": _share("share of cycles that evaluate (η)"),
    "latency_mean_s": _time("latency, mean"),
    "latency_worst_s": _time("latency, worst"),
    "transfers_hidden": lambda value: ("transfers hidden", "yes" if value else "no", ""),
    "smallest_latency_for_transfers_s": _time("smallest target that hides transfers"),
    "smallest_latency_s": _time("smallest target at this rate"),
}
