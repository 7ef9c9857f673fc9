"""The load of a join, and the interface of a device's model."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

from penstock.errors import UsageError

from ..execute.batcher import AT_ONCE, WAIT


def mean_window_s(before_s: float, after_s: float) -> float:
    """The FJoin paper's ϖ of a window ``[-before_s, +after_s]``: half of its length.

    Such a window is as much work as one that reaches ϖ into the past and into the future.

    The later tuple of each pair does the evaluation. So tuples of R meet the tuples of S of the
    last ``before_s``, and tuples of S those of R of the last ``after_s``.
    """
    return (before_s + after_s) / 2


def evaluations_per_s(rate_per_s: float, ratio: float, window_s: float) -> float:
    """Evaluations per second that a join needs: equation (2) of the FJoin paper, section 3.5.

    Parameters
    ----------
    rate_per_s : float
        T, tuples of both streams.
    ratio : float
        γ, rate of R over rate of S.
    window_s : float
        ϖ, see :func:`mean_window_s`.
    """
    return 2 * window_s * ratio / (ratio + 1) ** 2 * rate_per_s**2


def check_above_0(**values: float) -> None:
    """Refuse arguments that are not above 0 and finite."""
    for name, value in values.items():
        if not 0 < value < math.inf:
            raise UsageError(f"{name} must be above 0, not {value!r}")


def check_not_negative(**values: float) -> None:
    """Refuse arguments that are below 0 or infinite."""
    for name, value in values.items():
        if not 0 <= value < math.inf:
            raise UsageError(f"{name} must not be negative, not {value!r}")


@dataclass(frozen=True, kw_only=True)
class Load:
    """Two streams at steady rates, a window, and a latency target.

    Parameters
    ----------
    rate_per_s : float
        Tuples per second of both streams.
    ratio : float
        Rate of R over rate of S.
    before_s, after_s : float
        Each tuple of R meets tuples of S from ``before_s`` before it to ``after_s`` after it.
    latency_s : float
        ResultLatency target; a batch is cut every half of it.
    selectivity : float
        Joined rows per evaluation.

    Raises
    ------
    UsageError
        A value is out of range.
    """

    rate_per_s: float
    ratio: float
    before_s: float
    after_s: float
    latency_s: float
    selectivity: float = 0.0

    def __post_init__(self) -> None:
        check_above_0(rate_per_s=self.rate_per_s, ratio=self.ratio, latency_s=self.latency_s)
        check_not_negative(before_s=self.before_s, after_s=self.after_s)
        if not 0 <= self.selectivity <= 1:
            raise UsageError(f"selectivity must be from 0 to 1, not {self.selectivity!r}")
        if self.before_s + self.after_s == 0:
            raise UsageError("the window must have a length above 0")

    @property
    def window_s(self) -> float:
        """The paper's ϖ."""
        return mean_window_s(self.before_s, self.after_s)

    @property
    def evaluations_per_s(self) -> float:
        """Equation (2)."""
        return evaluations_per_s(self.rate_per_s, self.ratio, self.window_s)

    @property
    def rows_per_s(self) -> float:
        """Joined rows per second."""
        return self.evaluations_per_s * self.selectivity

    @property
    def interval_s(self) -> float:
        """Time from one batch to the next."""
        return WAIT * self.latency_s

    @property
    def probes(self) -> tuple[BatchHalf, BatchHalf]:
        """The two probes of a batch: its tuples of R in the window of S, and the reverse."""
        s = self.rate_per_s / (1 + self.ratio)
        r = self.rate_per_s * self.ratio / (1 + self.ratio)
        return (
            BatchHalf(r * self.interval_s, s * self.before_s, s / r),
            BatchHalf(s * self.interval_s, r * self.after_s, r / s),
        )

    def at(self, **changes: float) -> Load:
        """The load at another rate or target: ``rate_per_s=...``, ``latency_s=...``."""
        return replace(self, **changes)


@dataclass(frozen=True)
class BatchHalf:
    """The half of a batch that comes from one stream; its numbers are means.

    Parameters
    ----------
    stream_tuples : float
        New tuples.
    window_tuples : float
        Tuples of the other stream in the range of each new tuple.
    slide_tuples : float
        How far the range moves from one tuple to the next.
    """

    stream_tuples: float
    window_tuples: float
    slide_tuples: float

    @property
    def evaluations(self) -> float:
        return self.stream_tuples * self.window_tuples


class Model(Protocol):
    """A model of a device."""

    def utilisation(self, load: Load) -> float:
        """Share of the device's time that a load takes; above 1, the load is not sustained."""
        ...


@dataclass(frozen=True)
class ResultLatency:
    """Seconds from the arrival of a pair's later tuple until the result leaves."""

    mean_s: float
    worst_s: float


def latency(model: Model, load: Load) -> ResultLatency | None:
    """Latency of a load; None if it is not sustained, since it then grows without end.

    In a steady state a batch has the tuples of an interval, which are ``AT_ONCE`` of the waiting
    ones. So tuples wait ``1 / AT_ONCE`` intervals at most, half an interval less on average, and
    then for their batch.
    """
    used = model.utilisation(load)
    if used > 1:
        return None
    waits = 1 / AT_ONCE
    return ResultLatency((waits - 0.5 + used) * load.interval_s, (waits + used) * load.interval_s)
