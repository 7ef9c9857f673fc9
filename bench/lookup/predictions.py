"""The rates of ``auto`` that the cost model predicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace

import numpy as np

from bench.lookup.scale import BATCH_ROWS, Data, Scale
from penstock.host.lookup.algorithm import Algorithm
from penstock.host.lookup.calibrate import calibrate
from penstock.host.lookup.model import UnitCosts, predict
from penstock.host.lookup.tuner import StreamLoad, shape_of, tuned
from penstock.host.relation import open_relation

#: Bytes of a row of the calls.
_CALL_BYTES = 28
#: Exponents and shares of the scale's memory, of runs that tell what the join itself costs.
_RUNS = ((0.5, 0.5), (0.5, 2.0), (1.0, 1.0), (1.2, 0.5), (1.2, 2.0))
#: Costs that depend on the query, so that no piece of it tells them.
_OF_THE_JOIN = ("row_s", "wait_s", "round_s", "request_s")
_NO_COSTS = UnitCosts(**{cost.name: 0.0 for cost in fields(UnitCosts)})


@dataclass
class Predictions:
    """Predicts rows per second, each batch answered before the next one.

    Parameters
    ----------
    data : Data
    scale : Scale
    measured : callable
        Rows per CPU second of a run with an exponent and a share of the memory, of other calls
        than those whose rates are predicted.
    """

    data: Data
    scale: Scale
    measured: Callable[[float, float], float]
    _costs: UnitCosts | None = field(default=None, init=False)

    def rate(self, exponent: float, times: float) -> float:
        """Rows per second with so many times the scale's memory."""
        if self._costs is None:
            self._costs = self._measure()
        return 1 / self._row_s(exponent, times, self._costs, self._costs)

    def _measure(self) -> UnitCosts:
        """Costs of this machine, to which those of the join are added that explain the runs."""
        from scipy.optimize import nnls

        costs = calibrate(self._version, ["id", "plan", "name"])
        known = replace(costs, row_s=0.0, round_s=0.0)
        units = [replace(_NO_COSTS, **{name: 1.0}) for name in _OF_THE_JOIN]
        weights, missing = [], []
        for run in _RUNS:
            measured = 1 / self.measured(*run)
            # Relative to what was measured, so that slow runs do not weigh more.
            weights.append([self._row_s(*run, costs, unit) / measured for unit in units])
            missing.append(1 - self._row_s(*run, costs, known) / measured)
        more, _ = nnls(np.array(weights), np.array(missing))
        own = {
            name: getattr(known, name) + float(extra)
            for name, extra in zip(_OF_THE_JOIN, more, strict=True)
        }
        return replace(known, **own)

    def _row_s(self, exponent: float, times: float, tuning: UnitCosts, costs: UnitCosts) -> float:
        """Seconds of a row at some costs, the memory shared out as others say."""
        load = StreamLoad(_CALL_BYTES, exponent, batch=BATCH_ROWS)
        memory = int(times * self.scale.memory_bytes)
        split = tuned(self._version, memory, Algorithm.AUTO, load, tuning)
        return 1 / predict(Algorithm.AUTO, shape_of(self._version, split, load), costs).rate

    @property
    def _version(self):
        return open_relation(self.data.relation).version()
