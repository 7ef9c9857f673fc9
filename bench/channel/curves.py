"""Measures what figures 10a and 10b of the paper draw: rates and delays by slots; credits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from bench.channel import networks, ours, paper
from bench.channel.far import Far
from bench.channel.scale import SLOT_BYTES, Scale
from bench.channel.work import Source
from bench.rows import Row
from penstock.host.channel import FOOTER_BYTES

SIZES = [1 << bits for bits in range(12, 23)]
CREDITS = [1, 2, 4, 8, 16, 32, 64]
#: What each curve is called, by the contender that it is of.
LABELS = {
    ours.Near.name: "shared memory",
    networks.ON_SHM: "UCX on shm",
    networks.ON_TCP: "UCX on TCP",
}
#: Of a transfer: the slower ones have less to carry.
_SHARES = {networks.ON_SHM: 0.5, networks.ON_TCP: 0.25}
_MICRO = 1e6


@dataclass
class Curve:
    """What the pictures draw of one contender.

    Parameters
    ----------
    rate, seconds : dict of int to float
        Bytes/s, and the median from before the fill to the last touch, by bytes of a slot.
    credits : dict of int to float
        Bytes/s by slots.
    """

    rate: dict[int, float] = field(default_factory=dict)
    seconds: dict[int, float] = field(default_factory=dict)
    credits: dict[int, float] = field(default_factory=dict)


#: By :data:`LABELS`.
Curves = dict[str, Curve]


def measure_curves(
    contenders: list[tuple[Any, Far]], source: Source, scale: Scale, add: Callable[[Row], None]
) -> Curves:
    """Measure all curves.

    Parameters
    ----------
    contenders : list of tuple
        Near sides of :data:`LABELS`, each with its far side.
    source : Source
    scale : Scale
    add : callable
        Takes each row.
    """
    curves = {LABELS[near.name]: Curve() for near, _ in contenders}
    for near, far in contenders:
        _sizes(near, far, source, scale, curves[LABELS[near.name]], add)
    for near, far in contenders:
        _credits(near, far, source, scale, curves[LABELS[near.name]], add)
    return curves


def _sizes(
    near: Any, far: Far, source: Source, scale: Scale, curve: Curve, add: Callable[[Row], None]
) -> None:
    """Figures 10a and 10b: slots of 4 KiB to 4 MiB, c = 8."""
    for size in SIZES:
        job = scale.job(size - FOOTER_BYTES, share=_SHARES.get(near.name, 1.0))
        rates, delays = [], []
        for _ in range(scale.turns):
            time_s, done = far.transfer(near.one_by_one, job, source)
            rates.append(job.nbytes / time_s)
            delays.append(float(np.median(done.times_ns - np.array(near.sent_ns))) / 1e9)
        curve.rate[size], curve.seconds[size] = median(rates), median(delays)
        add(
            Row(
                f"figure 10a, 10b, {LABELS[near.name]}: {size >> 10} KiB",
                f"{median(rates) / 1e9:.2f} GB/s, {median(delays) * _MICRO:,.0f} us",
                baseline=f"paper {paper.SLASH_GBS} GB/s" if size >= paper.FULL_FROM_BYTES else "",
                values={"bytes_per_s": median(rates), "seconds": median(delays)},
            )
        )


def _credits(
    near: Any, far: Far, source: Source, scale: Scale, curve: Curve, add: Callable[[Row], None]
) -> None:
    """64 KiB slots, 1 to 64 of them, in turns."""
    rates: dict[int, list[float]] = {credits: [] for credits in CREDITS}
    for _ in range(scale.turns):
        for credits in CREDITS:
            job = scale.job(SLOT_BYTES - FOOTER_BYTES, credits, share=_SHARES.get(near.name, 1.0))
            time_s, _ = far.transfer(near, job, source)
            rates[credits].append(job.nbytes / time_s)
    curve.credits = {credits: median(found) for credits, found in rates.items()}
    for credits, rate in curve.credits.items():
        loss = paper.LOSS_BY_CREDITS.get(credits)
        add(
            Row(
                f"64 KiB, {LABELS[near.name]}, {credits} credits, over 8",
                f"{rate / curve.credits[8]:.2f}",
                baseline=f"paper >= {1 - loss:.2f}" if loss else "",
                values=rate,
            )
        )
