"""``penstock plan``: how many units or cores a join needs, or what rate a device sustains."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.cli import options
from penstock.cli.plan_picture import check, cores_against_rate, units_against_rate
from penstock.cli.plan_table import show
from penstock.cli.terminal import errors
from penstock.constraints.boards import BOARDS
from penstock.constraints.boards import board as find_board
from penstock.errors import UsageError
from penstock.host.perfmodel import solve
from penstock.host.perfmodel.load import Load, Model, latency
from penstock.host.perfmodel.pipeline import MOST_UNITS, Pipelines
from penstock.host.perfmodel.transfers import Link

#: Rate of a load of which the rate is asked for.
_ANY_RATE = 1.0

#: What no number of a plan is below or above.
_LEAST, _MOST = 1e-15, 1e15


def command(
    window: Annotated[
        str,
        typer.Option(
            "--window",
            help="How far the window reaches: 180s for both sides, 60s,10s for before and after.",
        ),
    ],
    rate: Annotated[
        float | None,
        typer.Option(
            "--rate", help="Tuples per second of both streams. Without: what is sustained."
        ),
    ] = None,
    ratio: Annotated[
        float, typer.Option("--ratio", help="Rate of the first stream over that of the second.")
    ] = 1.0,
    target: Annotated[str, typer.Option("--latency", help="Latency target, e.g. 20ms.")] = "200ms",
    selectivity: Annotated[
        float,
        typer.Option("--selectivity", help="Joined rows per evaluation; for --device cpu."),
    ] = 0.0,
    device: Annotated[
        str | None,
        typer.Option("--device", help="cpu: this machine, measured for a few seconds."),
    ] = None,
    board: Annotated[
        str | None, typer.Option("--board", help=f"Clock of a board: {', '.join(BOARDS)}.")
    ] = None,
    clock: Annotated[float | None, typer.Option("--clock", help="Clock in MHz instead.")] = None,
    units: Annotated[
        int | None,
        typer.Option(
            "--units",
            help="Join units of a pipeline; `penstock synth` counts how many fit a board.",
        ),
    ] = None,
    pipelines: Annotated[int, typer.Option("--pipelines", help="Equal pipelines.")] = 1,
    bandwidth: Annotated[
        float, typer.Option("--link", help="GB/s between host and device memory.")
    ] = 12.0,
    transfer_us: Annotated[
        float, typer.Option("--transfer-us", help="Fixed cost of a transfer in microseconds.")
    ] = 30.0,
    tuple_bytes: Annotated[
        float, typer.Option("--tuple-bytes", help="Bytes that go to the device per tuple.")
    ] = 40.0,
    picture: Annotated[
        Path | None,
        typer.Option("--picture", help="Draw what is needed against the rate; PNG, SVG or PDF."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say how many units or cores a join needs, or what rate a device sustains, and its latency."""
    if picture is not None:
        check(picture)
    before, after = _window(window)
    load = Load(
        rate_per_s=_ANY_RATE if rate is None else _above_0(rate, "rate"),
        ratio=_above_0(ratio, "ratio"),
        before_s=before,
        after_s=after,
        latency_s=_above_0(_seconds(target, "latency"), "latency"),
        selectivity=selectivity,
    )
    if device is not None:
        if device != "cpu":
            raise UsageError(
                f"--device takes cpu, not {device!r}; for hardware give --board or --clock"
            )
        if units is not None or board is not None or clock is not None:
            raise UsageError("--device cpu is this machine; --units, --board and --clock are not")
        report = _cores(load, rate is not None, picture)
    else:
        link = Link(
            bandwidth_bytes_per_s=_above_0(bandwidth, "link") * 1e9,
            transfer_s=_not_below_0(transfer_us, "transfer-us") * 1e-6,
            tuple_bytes=_above_0(tuple_bytes, "tuple-bytes"),
        )
        clock_hz = _clock_hz(board, clock)
        report = _pipelines(load, rate is not None, units, clock_hz, pipelines, link, picture)
    if as_json:
        typer.echo(json.dumps(report, indent=2))
        return
    show(report)
    if picture is not None:
        errors.print(f"picture: {picture}", markup=False, highlight=False)


def _window(text: str) -> tuple[float, float]:
    """``180s`` for both sides, or ``60s,10s``: seconds before and after."""
    parts = [_seconds(part, "window") for part in text.split(",")]
    if len(parts) > 2:
        raise UsageError(f"--window takes one duration or two, before and after, not {text!r}")
    if sum(parts) == 0:
        raise UsageError(f"--window must have a length above 0, not {text!r}")
    return parts[0], parts[-1]


def _seconds(text: str, option: str) -> float:
    span = options.span(text, option)
    if not isinstance(span, timedelta):
        raise UsageError(f"--{option} takes a duration with its unit, such as 180s, not {text!r}")
    return span.total_seconds()


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


def _clock_hz(board: str | None, clock_mhz: float | None) -> float:
    if board is not None and clock_mhz is not None:
        raise UsageError("--board and --clock both say the clock; give one")
    if board is not None:
        return find_board(board).clock_mhz * 1e6
    if clock_mhz is None:
        raise UsageError("what is planned for? give --board, --clock, or --device cpu")
    return _above_0(clock_mhz, "clock") * 1e6


def _pipelines(
    load: Load,
    rated: bool,
    units: int | None,
    clock_hz: float,
    pipelines: int,
    link: Link,
    picture: Path | None,
) -> dict[str, Any]:
    if units is not None:
        _above_0(units, "units")
    _above_0(pipelines, "pipelines")
    asked: dict[str, Any] = {}
    if units is None:
        if not rated:
            raise UsageError("give --units to know the rate, or --rate to know the units")
        units = solve.units_needed(load, clock_hz, pipelines)
        if units is None:
            raise UsageError(
                f"{pipelines} x {MOST_UNITS} units at {clock_hz / 1e6:g} MHz do not sustain this "
                "rate; use more pipelines, or a longer latency target"
            )
        asked["units_needed"] = units
    model = Pipelines(units=units, clock_hz=clock_hz, pipelines=pipelines)
    sustained = solve.sustainable_rate_per_s(model, load)
    if not rated:
        load = load.at(rate_per_s=sustained)
    hidden = link.utilisation(load) <= 1
    report = {
        "units": units,
        "clock_mhz": clock_hz / 1e6,
        "pipelines": pipelines,
        **_load(load),
        **asked,
        "sustained_rate_per_s": sustained,
        **_answers(model, load),
        "evaluating": model.evaluating(load),
        "transfers_hidden": hidden,
        "smallest_latency_for_transfers_s": link.smallest_latency_s(load),
        "smallest_latency_s": solve.smallest_latency_s(model, load, link),
    }
    if picture is not None:
        units_against_rate(picture, load, clock_hz, pipelines, units)
    return report


def _cores(load: Load, rated: bool, picture: Path | None) -> dict[str, Any]:
    from penstock.host.device.registry import open_device
    from penstock.host.perfmodel.cpu import calibrate

    with open_device("cpu") as device:
        model = calibrate(device)
    sustained = solve.sustainable_rate_per_s(model, load)
    asked: dict[str, Any] = {}
    if rated:
        asked["cores_needed"] = solve.lanes_needed(model, load)
    else:
        load = load.at(rate_per_s=sustained)
    report = {
        "lanes": model.lanes,
        "lane_evaluations_per_s": model.lane_evaluations_per_s,
        "batch_s": model.batch_s,
        "tuple_s": model.tuple_s,
        "task_s": model.task_s,
        "row_s": model.row_s,
        **_load(load),
        **asked,
        "sustained_rate_per_s": sustained,
        **_answers(model, load),
        "smallest_latency_s": solve.smallest_latency_s(model, load),
    }
    if picture is not None:
        cores_against_rate(picture, load, model)
    return report


def _load(load: Load) -> dict[str, float]:
    return {
        "rate_per_s": load.rate_per_s,
        "ratio": load.ratio,
        "before_s": load.before_s,
        "after_s": load.after_s,
        "latency_target_s": load.latency_s,
        "evaluations_per_s": load.evaluations_per_s,
    }


def _answers(model: Model, load: Load) -> dict[str, Any]:
    found = latency(model, load)
    return {
        "utilisation": model.utilisation(load),
        "latency_mean_s": None if found is None else found.mean_s,
        "latency_worst_s": None if found is None else found.worst_s,
    }
