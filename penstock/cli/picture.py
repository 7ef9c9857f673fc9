"""Draws the demo's picture, and the units or cores that a rate needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.host.model import solve
from penstock.host.model.cpu import Cores
from penstock.host.model.load import Load

from ..errors import FileError, MissingToolError, UsageError, installing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from penstock.sim.amaranth_device import Cycle

_INK = "#1b2a41"
_STYLE: dict[Any, Any] = {"font.size": 10, "text.color": _INK, "axes.labelcolor": _INK}
_GROUND = "#f7f5f0"
#: Places of the demo's three drawings.
_GRID: dict[str, Any] = {
    "width_ratios": (1, 1.1),
    "height_ratios": (3, 1),
    "wspace": 0.2,
    "hspace": 0.32,
    "left": 0.05,
    "right": 0.98,
    "top": 0.86,
    "bottom": 0.09,
}
_STREET = "#8fa3b8"
#: Flits at the head, in the order they are drawn, with a colour each.
_KINDS = {"window": "#2a7f9e", "load": "#e07a2f", "retire": "#7d4e9e", "clear": "#b03a48"}


def draw(
    path: Path,
    tables: dict[str, pa.Table],
    joined: pa.Table,
    trace: list[Cycle],
    units: int,
    diff: int,
    window: int,
) -> None:
    """Write the picture as PNG.

    Parameters
    ----------
    path : Path
    tables : mapping of str to Table
        ``orders`` and ``gps``.
    joined : Table
        With ``lon``, ``lat`` of the order of each match.
    trace : list of Cycle
        The simulated slice.
    units, diff, window : int
        Join units; Manhattan distance in steps of 1e-5 degree; seconds before and after.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    with plt.rc_context(_STYLE):
        figure = plt.figure(figsize=(14, 7), facecolor=_GROUND)
        grid = figure.add_gridspec(2, 2, **_GRID)
        _map(figure.add_subplot(grid[:, 0]), tables, joined)
        _occupancy(figure.add_subplot(grid[0, 1]), trace, units)
        _flits(figure.add_subplot(grid[1, 1]), trace)
        figure.suptitle(
            f"{joined.num_rows:,} matches: abs(Δlon) + abs(Δlat) < {diff} steps of 1e-5°, "
            f"within {window} s",
            x=0.05,
            y=0.965,
            ha="left",
            size=15,
            weight="bold",
        )
        figure.text(
            0.05,
            0.905,
            f"{tables['orders'].num_rows:,} ride orders, "
            f"{tables['gps'].num_rows:,} vehicle positions",
            color=_STREET,
            size=11,
        )
        figure.savefig(path, dpi=110, facecolor=_GROUND)
        plt.close(figure)


def _degrees(table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    return table["lon"].to_numpy() / 1e5, table["lat"].to_numpy() / 1e5


def _map(axes: Axes, tables: dict[str, pa.Table], joined: pa.Table) -> None:
    from matplotlib.colors import LogNorm

    lon, lat = _degrees(tables["gps"])
    axes.hist2d(lon, lat, bins=420, cmap="Greys", norm=LogNorm(), alpha=0.55, rasterized=True)
    lon, lat = _degrees(joined)
    heat = axes.hexbin(
        lon, lat, gridsize=70, cmap="inferno_r", mincnt=1, norm=LogNorm(), alpha=0.85, linewidths=0
    )
    bar = axes.figure.colorbar(heat, ax=axes, fraction=0.035, pad=0.015)
    bar.set_label("matches per cell")
    bar.outline.set_visible(False)
    axes.set_aspect(1 / np.cos(np.deg2rad(lat.mean() if len(lat) else 30.0)))
    axes.set_title("Where orders meet vehicles (grey: the vehicles' traces)", loc="left", size=11)
    axes.set(xlabel="longitude, °", ylabel="latitude, °")
    axes.ticklabel_format(useOffset=False)
    _plain(axes)


def _occupancy(axes: Axes, trace: list[Cycle], units: int) -> None:
    active = np.array([cycle.active for cycle in trace])
    cycles = np.arange(len(active))
    axes.fill_between(cycles, active, step="mid", color=_KINDS["window"], alpha=0.3, linewidth=0)
    axes.step(cycles, active, where="mid", color=_KINDS["window"], linewidth=0.9)
    axes.axhline(units, color=_INK, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.text(len(active), units, f"{units} units ", ha="right", va="bottom", size=9)
    limits = {"xlim": (0, max(len(active), 1)), "ylim": (0, units * 1.12)}
    axes.set(ylabel="active join units", **limits)
    axes.set_title(
        "The simulated pipeline on a slice: units that hold a tuple", loc="left", size=11
    )
    _plain(axes)


def _flits(axes: Axes, trace: list[Cycle]) -> None:
    """Draw the share of each kind of flit at the head, over bins of cycles."""
    names = np.array([cycle.kind.name.lower().split("_")[0] for cycle in trace])
    bins = np.linspace(0, max(len(names), 1), min(len(names), 160) + 1)
    total = np.histogram(np.arange(len(names)), bins)[0].clip(min=1)
    bottom = np.zeros(len(bins) - 1)
    for kind, colour in _KINDS.items():
        share = np.histogram(np.flatnonzero(names == kind), bins)[0] / total
        axes.bar(
            bins[:-1],
            share,
            width=np.diff(bins),
            bottom=bottom,
            align="edge",
            color=colour,
            label=kind,
            linewidth=0,
        )
        bottom += share
    axes.set(xlim=(0, max(len(names), 1)), ylim=(0, 1), xlabel="cycle")
    axes.set_yticks([0, 1], ["0", "100 %"])
    axes.set_title("Flits at the head", loc="left", size=11)
    axes.legend(
        ncols=len(_KINDS),
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        frameon=False,
        fontsize=9,
        handlelength=1.0,
    )
    _plain(axes)


def _plain(axes: Axes) -> None:
    axes.set_facecolor(_GROUND)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(colors=_STREET, length=0)


_SHADES = ("#9cc5d3", "#2a7f9e", "#12495e")
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
            **_STYLE,
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
