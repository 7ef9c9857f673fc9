"""Draws the units or cores that a rate needs, as the FJoin paper's figures 1 and 2 do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from penstock.host.model import solve
from penstock.host.model.cpu import Cores
from penstock.host.model.load import Load

from ..errors import FileError, MissingToolError, UsageError, installing

_INK, _SHADES = "#1b2a41", ("#9cc5d3", "#2a7f9e", "#12495e")
#: Windows to draw, as multiples of the requested one.
_WINDOWS = (0.5, 1.0, 2.0)
_POINTS = 240
#: End of the axis of rates, in rates of the plan.
_REACH = 1.6
_FORMATS = ("png", "svg", "pdf")


def units_against_rate(path: Path, load: Load, clock_hz: float, pipelines: int, units: int) -> None:
    """Draw the units that a rate needs; the plan's units are a point.

    Raises
    ------
    UsageError, FileError, MissingToolError
        See :func:`check`.
    """

    def needed(at: Load) -> int | None:
        each = solve.units_needed(at, clock_hz, pipelines)
        return None if each is None else each * pipelines

    _draw(path, load, "join units", needed, units * pipelines, f"at {clock_hz / 1e6:g} MHz")


def cores_against_rate(path: Path, load: Load, model: Cores) -> None:
    """Draw the cores that a rate needs; the measured cores are a point."""
    speed = f"of {model.lane_evaluations_per_s / 1e9:.1f} G evaluations/s each"
    _draw(path, load, "cores", lambda at: solve.lanes_needed(model, at), model.lanes, speed)


def check(path: Path) -> None:
    """Refuse a picture before anything is measured for it.

    Raises
    ------
    UsageError
        The name does not end in a format of pictures.
    FileError
        There is no such folder.
    MissingToolError
        Matplotlib is not installed.
    """
    if path.suffix.lower().lstrip(".") not in _FORMATS:
        raise UsageError(f"--picture ends in .{', .'.join(_FORMATS)}, not {path.name!r}")
    if not path.parent.is_dir():
        raise FileError(f"there is no folder {path.parent} for the picture; make it first")
    try:
        import matplotlib as mpl
    except ModuleNotFoundError:
        raise MissingToolError(
            f"pictures need matplotlib, which is not installed; {installing('demo')}"
        ) from None
    mpl.use("Agg")


def _draw(
    path: Path, load: Load, noun: str, needed: Callable[[Load], int | None], count: int, speed: str
) -> None:
    check(path)
    from matplotlib import pyplot as plt

    rates = np.linspace(0, _REACH * load.rate_per_s, _POINTS + 1)[1:]
    with plt.rc_context(
        {
            "font.size": 10,
            "text.color": _INK,
            "axes.labelcolor": _INK,
            "axes.grid": True,
            "grid.alpha": 0.25,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    ):
        figure, axes = plt.subplots(figsize=(7.5, 4.6))
        for part, colour in zip(_WINDOWS, _SHADES, strict=True):
            window = replace(load, before_s=load.before_s * part, after_s=load.after_s * part)
            needs = [needed(window.at(rate_per_s=float(rate))) for rate in rates]
            numbers = [np.nan if number is None else number for number in needs]
            label = _name(window)
            axes.plot(rates, numbers, color=colour, linewidth=2 if part == 1 else 1.3, label=label)
        label = f"this plan: {count:,} {noun}"
        axes.plot(load.rate_per_s, count, "o", color="#e07a2f", label=label, zorder=3)
        axes.set(
            xlim=(0, rates[-1]),
            ylim=(0, None),
            xlabel=f"tuples per second of both streams, {load.ratio:g} : 1",
            ylabel=f"{noun} needed",
        )
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.set_title(
            f"{noun.capitalize()} {speed}, latency target {load.latency_s * 1e3:g} ms", loc="left"
        )
        axes.legend(frameon=False)
        try:
            figure.savefig(path, dpi=150, bbox_inches="tight")
        except OSError as error:
            raise FileError(f"the picture {path} cannot be written: {error}") from None
        finally:
            plt.close(figure)


def _name(load: Load) -> str:
    if load.before_s == load.after_s:
        return f"window ± {load.before_s:g} s"
    return f"window -{load.before_s:g} s to +{load.after_s:g} s"
