"""Slots of event time, and the times of rows in them."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
import numpy.typing as npt

US_PER_S = 1_000_000


@dataclass(frozen=True)
class Slot:
    """One piece of event time of one stream.

    Parameters
    ----------
    number : int
        Position in the stream, from 0.
    begin_us, end_us : int
        Event times ``begin_us <= t < end_us`` in microseconds since the start of the run.
    rng : numpy.random.Generator
        Random numbers of this slot and no other.
    """

    number: int
    begin_us: int
    end_us: int
    rng: np.random.Generator


def poisson_times(slot: Slot, rate: float) -> npt.NDArray[np.int64]:
    """Event times of a Poisson process of ``rate`` per second inside the slot, sorted, in us."""
    count = slot.rng.poisson(rate * (slot.end_us - slot.begin_us) / US_PER_S)
    return np.sort(slot.rng.integers(slot.begin_us, slot.end_us, size=count))


def steady_numbers(slot: Slot, rate: float) -> npt.NDArray[np.int64]:
    """Numbers from 0 of the rows inside the slot that come every ``1 / rate`` seconds."""
    first, last = (ceil(end * rate / US_PER_S) for end in (slot.begin_us, slot.end_us))
    return np.arange(first, last)


def steady_times(
    slot: Slot, rate: float, numbers: npt.NDArray[np.int64] | None = None
) -> npt.NDArray[np.int64]:
    """Event times of rows that come every ``1 / rate`` seconds, in us.

    Parameters
    ----------
    slot : Slot
    rate : float
        Rows per second.
    numbers : ndarray of int64 or None
        Of rows inside the slot; None is all of them.
    """
    if numbers is None:
        numbers = steady_numbers(slot, rate)
    ts = np.floor(numbers * (US_PER_S / rate)).astype(np.int64)
    # Rounding may move the first one before the slot.
    return np.clip(ts, slot.begin_us, slot.end_us - 1)
