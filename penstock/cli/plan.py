"""``penstock plan``: computes the units or cores of a join, or the rate of a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from penstock.constraints.boards import BOARDS
from penstock.constraints.boards import board as find_board
from penstock.host.model import solve
from penstock.host.model.load import Load, Model, latency
from penstock.host.model.pipeline_cycles import MOST_UNITS, PipelineModel, TransferLink

from ..errors import UsageError
from ..words import count
from . import values
from .options import application, group, option
from .picture import check, cores_against_rate, units_against_rate
from .plan_lookup import LookupLoadArguments, plan_lookup, show_lookup
from .terminal import errors, results, say_json, table

#: Placeholder rate of a load with an unknown rate.
_ANY_RATE = 1.0

#: The range of all numbers of a plan.
_LEAST, _MOST = 1e-15, 1e15


#: A value as name, number and unit.
Line = Callable[[Any], tuple[str, str, str]]


def show(report: Mapping[str, Any]) -> None:
    """Print the table, and a warning if the load is too much."""
    lines = (_LINES[key](value) for key, value in report.items())
    results.print(table("", "", "", rows=lines, right={1}))
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


@group
class LoadArguments:
    """A join and its streams."""

    window: str | None = option(
        "How far the window reaches: 180s for both sides, 60s,10s for before and after."
    )
    rate: float | None = option("Tuples per second of both streams. Without: what is sustained.")
    ratio: float = option("Rate of the first stream over that of the second.", default=1.0)
    latency: str = option("Latency target, e.g. 20ms.", default="200ms")
    selectivity: float = option("Joined rows per evaluation; for --device cpu.", default=0.0)

    @property
    def load(self) -> Load:
        """The load, at an arbitrary rate if none is given."""
        if self.window is None:
            raise UsageError("what is planned? give --window of a join, or --relation")
        before, after = _window(self.window)
        return Load(
            rate_per_s=_ANY_RATE if self.rate is None else _above_0(self.rate, "rate"),
            ratio=_above_0(self.ratio, "ratio"),
            before_s=before,
            after_s=after,
            latency_s=_above_0(values.seconds(self.latency, "latency", "180s"), "latency"),
            selectivity=self.selectivity,
        )


@group
class HardwareArguments:
    """The hardware that the join is planned for."""

    device: str | None = option("cpu: this machine, measured for a few seconds.")
    board: str | None = option(f"Clock of a board: {', '.join(BOARDS)}.")
    clock: float | None = option("Clock in MHz instead.")
    units: int | None = option(
        "Join units of a pipeline; `penstock synth` counts how many fit a board."
    )
    pipelines: int = option("Equal pipelines.", default=1)
    bandwidth: float = option("GB/s between host and device memory.", "--link", default=12.0)
    transfer_us: float = option("Fixed cost of a transfer in microseconds.", default=30.0)
    tuple_bytes: float = option("Bytes that go to the device per tuple.", default=40.0)

    @property
    def is_cpu(self) -> bool:
        """Whether the device is this machine."""
        if self.device is None:
            return False
        if self.device != "cpu":
            raise UsageError(
                f"--device takes cpu, not {self.device!r}; for hardware give --board or --clock"
            )
        if self.units is not None or self.board is not None or self.clock is not None:
            raise UsageError("--device cpu is this machine; --units, --board and --clock are not")
        return True

    @property
    def link(self) -> TransferLink:
        """The link between host and device memory."""
        return TransferLink(
            bandwidth_bytes_per_s=_above_0(self.bandwidth, "link") * 1e9,
            transfer_s=_not_below_0(self.transfer_us, "transfer-us") * 1e-6,
            tuple_bytes=_above_0(self.tuple_bytes, "tuple-bytes"),
        )

    @property
    def clock_hz(self) -> float:
        """The clock of the pipelines."""
        if self.board is not None and self.clock is not None:
            raise UsageError("--board and --clock both say the clock; give one")
        if self.board is not None:
            return find_board(self.board).clock_mhz * 1e6
        if self.clock is None:
            raise UsageError("what is planned for? give --board, --clock, or --device cpu")
        return _above_0(self.clock, "clock") * 1e6


@application
def app(
    load_options: LoadArguments,
    lookup: LookupLoadArguments,
    hardware: HardwareArguments,
    picture: Path | None = option("Draw what is needed against the rate; PNG, SVG or PDF."),
    as_json: bool = option("Print JSON.", "--json", default=False),
) -> None:
    """Say how many units or cores a join needs, or what rate a device sustains, and its latency."""
    if lookup.relation is not None:
        report = plan_lookup(lookup, load_options.rate)
        if as_json:
            say_json(report)
        else:
            show_lookup(report)
        return
    if picture is not None:
        check(picture)
    load, is_rated = load_options.load, load_options.rate is not None
    if hardware.is_cpu:
        report = _cores(load, is_rated, picture)
    else:
        report = _pipelines(load, is_rated, hardware, picture)
    if as_json:
        say_json(report)
        return
    show(report)
    if picture is not None:
        errors.print(f"picture: {picture}", markup=False, highlight=False)


def _window(text: str) -> tuple[float, float]:
    """Read ``180s`` for both sides, or ``60s,10s``, as seconds before and after."""
    parts = [values.seconds(part, "window", "180s") for part in text.split(",")]
    if len(parts) > 2:
        raise UsageError(f"--window takes one duration or two, before and after, not {text!r}")
    if sum(parts) == 0:
        raise UsageError(f"--window must have a length above 0, not {text!r}")
    return parts[0], parts[-1]


def _above_0(value: float, option: str) -> float:
    if not value > 0:
        raise UsageError(f"--{option} must be above 0, not {value:g}")
    return _in_range(value, option)


def _not_below_0(value: float, option: str) -> float:
    if not value >= 0:
        raise UsageError(f"--{option} must not be negative, not {value:g}")
    return _in_range(value, option) if value else value


def _in_range(value: float, option: str) -> float:
    if not _LEAST <= value <= _MOST:
        raise UsageError(f"--{option} must be from {_LEAST:g} to {_MOST:g}, not {value:g}")
    return value


def _pipelines(
    load: Load, is_rated: bool, hardware: HardwareArguments, picture: Path | None
) -> dict[str, Any]:
    link, clock_hz = hardware.link, hardware.clock_hz
    units, pipelines = hardware.units, hardware.pipelines
    if units is not None:
        _above_0(units, "units")
    _above_0(pipelines, "pipelines")
    needs: dict[str, Any] = {}
    if units is None:
        if not is_rated:
            raise UsageError("give --units to know the rate, or --rate to know the units")
        units = solve.units_needed(load, clock_hz, pipelines)
        if units is None:
            raise UsageError(
                f"{pipelines} x {MOST_UNITS} units at {clock_hz / 1e6:g} MHz do not sustain this "
                "rate; use more pipelines, or a longer latency target"
            )
        needs["units_needed"] = units
    model = PipelineModel(units=units, clock_hz=clock_hz, pipelines=pipelines)
    load, answers = _answers(model, load, is_rated, needs)
    if picture is not None:
        units_against_rate(picture, load, clock_hz, pipelines, units)
    return {
        "units": units,
        "clock_mhz": clock_hz / 1e6,
        "pipelines": pipelines,
        **answers,
        "evaluating": model.evaluating(load),
        "transfers_hidden": link.utilisation(load) <= 1,
        "smallest_latency_for_transfers_s": link.smallest_latency_s(load),
        "smallest_latency_s": solve.smallest_latency_s(model, load, link),
    }


def _cores(load: Load, is_rated: bool, picture: Path | None) -> dict[str, Any]:
    from penstock.host.device.registry import open_device
    from penstock.host.model.cpu import calibrate

    with open_device("cpu") as device:
        model = calibrate(device)
    needs = {"cores_needed": solve.lanes_needed(model, load)} if is_rated else {}
    load, answers = _answers(model, load, is_rated, needs)
    if picture is not None:
        cores_against_rate(picture, load, model)
    measured = ("lanes", "lane_evaluations_per_s", "batch_s", "tuple_s", "task_s", "row_s")
    return {
        **{name: getattr(model, name) for name in measured},
        **answers,
        "smallest_latency_s": solve.smallest_latency_s(model, load),
    }


def _answers(
    model: Model, load: Load, is_rated: bool, needs: dict[str, Any]
) -> tuple[Load, dict[str, Any]]:
    """Give the load, at the sustained rate if no rate is given, and the results for it."""
    sustained = solve.sustainable_rate_per_s(model, load)
    if not is_rated:
        load = load.at(rate_per_s=sustained)
    delay = latency(model, load)
    return load, {
        "rate_per_s": load.rate_per_s,
        "ratio": load.ratio,
        "before_s": load.before_s,
        "after_s": load.after_s,
        "latency_target_s": load.latency_s,
        "evaluations_per_s": load.evaluations_per_s,
        **needs,
        "sustained_rate_per_s": sustained,
        "utilisation": model.utilisation(load),
        "latency_mean_s": None if delay is None else delay.mean_s,
        "latency_worst_s": None if delay is None else delay.worst_s,
    }
