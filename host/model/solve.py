"""Questions to a model: which rate, how many units, which latency target."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from .cpu import Cores
from .load import Load, Model
from .pipeline_cycles import MOST_UNITS, PipelineModel, TransferLink

#: Range of the search for rates, in tuples per second.
_LEAST_RATE, _MOST_RATE = 1e-6, 1e15
#: Halvings of that range, as a ratio: beyond the precision of a double.
_HALVINGS = 100
#: Range of the search for latency targets, in seconds: its start is too short for any host.
_TARGETS_S = np.geomspace(1e-5, 100, 1 + 7 * 200)


def sustainable_rate_per_s(model: Model, load: Load) -> float:
    """Largest rate at which a device is not overloaded; ``load`` gives all but the rate."""
    low, high = _LEAST_RATE, _MOST_RATE
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        if model.utilisation(load.at(rate_per_s=middle)) > 1:
            high = middle
        else:
            low = middle
    return low


def units_needed(
    load: Load, clock_hz: float, pipelines: int = 1, *, most: int = MOST_UNITS
) -> int | None:
    """Fewest units of each pipeline that sustain a load; None if ``most`` do not."""

    model = PipelineModel(units=1, clock_hz=clock_hz, pipelines=pipelines)
    return _fewest(lambda units: replace(model, units=units).utilisation(load) <= 1, most)


def lanes_needed(model: Cores, load: Load, *, most: int = 1 << 16) -> int | None:
    """Fewest cores that sustain a load; None if the host's work is too much for one core."""
    return _fewest(lambda lanes: replace(model, lanes=lanes).utilisation(load) <= 1, most)


def _fewest(enough: Callable[[int], bool], most: int) -> int | None:
    if not enough(most):
        return None
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle
    return high


def smallest_latency_s(model: Model, load: Load, link: TransferLink | None = None) -> float | None:
    """Smallest latency target at which a load is sustained and its transfers are hidden.

    A smaller target makes smaller batches, which fill less of a pipeline's last pass.

    Parameters
    ----------
    link : TransferLink, optional
        Between host and device; none for a device in the host's memory.

    Returns
    -------
    float or None
        To a step of 1 %; None if targets of 100 s are too short.
    """
    for target in np.sort(np.append(_TARGETS_S, load.latency_s)):
        at = load.at(latency_s=float(target))
        if model.utilisation(at) <= 1 and (link is None or link.utilisation(at) <= 1):
            return at.latency_s
    return None
