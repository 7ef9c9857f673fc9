"""The figures: rates of the pipeline, sizes of its unit, and what boards could evaluate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.hw.area import Sizes
from bench.hw.cycles import Run, measure
from bench.hw.report import CLOCK_HZ, FJOIN, LUT_SHARE, Scale, evaluations
from bench.pictures import OTHER, OURS, THEIRS, save
from bench.store import Store
from penstock.constraints.boards import BOARDS
from penstock.host.device.registry import device_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Bytes per second that PCIe carries to the host, and of a pair there.
PCIE_BYTES_PER_S, PAIR_BYTES = 12e9, 8


def draw(
    store: Store, scale: Scale, per_unit: dict[str, tuple[float, float]], out: Path
) -> list[Path]:
    """Write all pictures; returns their paths.

    Parameters
    ----------
    store : Store
        Measures what has not been measured.
    scale : Scale
    per_unit : mapping of build to (LUT, FF)
        Of whole pipelines, for the boards.
    out : Path
        Folder.
    """
    from matplotlib import pyplot as plt

    return save(
        {
            "hw_rate": lambda: _rates(plt.subplots(1, 3, figsize=(13, 4)), store, scale),
            "hw_unit": lambda: _units(plt.subplots(1, 2, figsize=(10, 4)), Sizes(store)),
            "hw_boards": lambda: _boards(plt.subplots(figsize=(8, 4.5)), per_unit),
        },
        out,
    )


def _rates(made: tuple[Figure, Sequence[Axes]], store: Store, scale: Scale) -> Figure:
    figure, (length, share, latency) = made
    units = scale.units
    devices = [("rtl", "Penstock", OURS)]
    if FJOIN in device_names():
        devices.append((FJOIN, "FJoin (the paper's unit)", THEIRS))
    most = scale.window_tuples
    base = {"units": units, "stream_tuples": units, "window_tuples": most // 5}
    lengths = [most // 100, most // 30, most // 10, most // 3, most]
    shares = [1e-4, 1e-3, 1e-2, 1e-1, 1.0]
    cycles = [0, 16, 64, 256, 1024]
    for device, label, colour in devices:
        for axes, values, option, more in (
            (length, lengths, "window_tuples", {}),
            (share, shares, "selectivity", {"window_tuples": most // 20}),
            (latency, cycles, "latency_cycles", {"selectivity": 0.01}),
        ):
            found = {
                value: measure(store, Run(**{**base, **more, "device": device, option: value}))
                for value in values
            }
            # A task whose results have no room in one piece has no rate.
            rates = {v: r["per_cycle"] for v, r in found.items() if "refused" not in r}
            axes.plot([*rates], [*rates.values()], "o-", color=colour, label=label)
    length.set(xscale="log", xlabel="window tuples", ylabel="window tuples per cycle")
    length.set_title(f"length of the window, {units} units, no matches")
    share.set(xscale="log", xlabel="share of pairs that match")
    share.set_title(f"selectivity, pairs written, {most // 20:,} window tuples")
    latency.set_xscale("symlog", base=2, linthresh=16)
    latency.set_xticks(cycles, [str(c) for c in cycles])
    latency.set(xlabel="memory latency, cycles")
    latency.set_title(f"memory latency, 1 % match, {most // 5:,} window tuples")
    for axes in (length, share, latency):
        axes.set_ylim(0, 1.05)
    latency.legend(loc="lower left", frameon=False)
    figure.tight_layout()
    return figure


def _units(made: tuple[Figure, Sequence[Axes]], sizes: Sizes) -> Figure:
    figure, (by_width, by_tests) = made
    widths, tests = [8, 16, 24, 32, 48, 64], [1, 2, 4, 8]
    for axes, values, cells in (
        (by_width, widths, [sizes.unit(2, width) for width in widths]),
        (by_tests, tests, [sizes.unit(count, 32) for count in tests]),
    ):
        axes.plot(values, [c.lut for c in cells], "o-", color=OURS, label="LUT")
        axes.plot(values, [c.ff for c in cells], "s-", color=THEIRS, label="FF")
        axes.set_xticks(values)
        axes.set_ylim(bottom=0)
    by_width.set(xlabel="key width, bits", ylabel="cells of one unit")
    by_width.set_title("two band tests")
    by_tests.set(xlabel="band tests")
    by_tests.set_title("32-bit keys")
    by_width.legend(frameon=False)
    figure.tight_layout()
    return figure


def _boards(made: tuple[Figure, Axes], per_unit: dict[str, tuple[float, float]]) -> Figure:
    figure, axes = made
    names = sorted(BOARDS, key=lambda name: BOARDS[name].lut)
    for offset, build, colour in (
        (-0.2, "two 32-bit band tests", OURS),
        (0.2, "two 24-bit band tests", OTHER),
    ):
        rates = [evaluations(name, per_unit[build][0]) / 1e12 for name in names]
        bars = axes.barh(
            [at + offset for at in range(len(names))], rates, 0.38, color=colour, label=build
        )
        axes.bar_label(bars, [f"{rate:.2f}" for rate in rates], padding=3, fontsize=8)
    axes.set_yticks(range(len(names)), names)
    axes.margins(x=0.1)
    axes.set_axisbelow(True)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("predicate evaluations per second, 1e12")
    axes.set_title(
        f"projected: {LUT_SHARE:.0%} of the LUTs, {CLOCK_HZ / 1e6:.0f} MHz on every board; "
        "no board was timed"
    )
    axes.legend(loc="lower right", frameon=False)
    top = evaluations("u280", per_unit["two 32-bit band tests"][0])
    limit = PCIE_BYTES_PER_S / PAIR_BYTES / top
    figure.text(
        0.01,
        -0.03,
        f"Pairs leave a card at {PCIE_BYTES_PER_S / 1e9:.0f} GB/s, {PAIR_BYTES} bytes each: above "
        f"a selectivity of {limit * 1e4:.1f}e-4 PCIe limits a U280, not its units.",
        fontsize=9,
    )
    return figure
