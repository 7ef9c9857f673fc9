"""Draws the demo's picture: matches on the map, the pipeline's occupancy over cycles."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from penstock.sim.amaranth_device import Cycle

_INK = "#1b2a41"
_GROUND = "#f7f5f0"
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

    with plt.rc_context({"font.size": 10, "text.color": _INK, "axes.labelcolor": _INK}):
        figure = plt.figure(figsize=(14, 7), facecolor=_GROUND)
        grid = figure.add_gridspec(
            2,
            2,
            width_ratios=(1, 1.1),
            height_ratios=(3, 1),
            wspace=0.2,
            hspace=0.32,
            left=0.05,
            right=0.98,
            top=0.86,
            bottom=0.09,
        )
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
