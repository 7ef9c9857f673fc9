"""What is measured: systems, loads as shares of what is predicted to be sustained, and results."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from bench.host import open_loop, overhead, overload
from bench.host.closed_loop import sustained_per_s
from bench.host.modelled import CLOCK_HZ, ModelledDevice
from bench.host.open_loop import Measured
from bench.host.traffic import Traffic
from bench.store import Store, sources
from penstock.host.device.base import Device
from penstock.host.device.registry import open_device
from penstock.host.model.cpu import Cores, calibrate
from penstock.host.model.load import Model
from penstock.host.model.pipeline_cycles import PipelineModel

#: The CPU device, where a number of units is asked for.
CPU = 0
#: Seconds of measuring which rate is sustained.
_BESIDE_S = 4.0
#: Latency target of that.
_LARGE_S = 0.2
#: Lanes of a modelled system, which share its units (the FJoin paper, section 5.1).
LANES = 2


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a join.

    Parameters
    ----------
    units : int
        Of both lanes together, or :data:`CPU`.
    load : float
        Utilisation of the device that is predicted for the rate of the run.
    measured_load : bool
        The rate is corrected by how far off a prediction is that is measured just before.
    workload, ratio, window_s
        See :class:`bench.host.traffic.Traffic`.
    target_s : float
        Latency target.
    ordered : bool
    measured_s : float
        Seconds after two windows.
    results : int
        Expected in that time.
    rise_per_s : float
        See :func:`bench.host.open_loop.run`.
    """

    units: int
    load: float
    measured_load: bool = False
    workload: str = "ride"
    ratio: float = 1.0
    window_s: float
    target_s: float
    ordered: bool = False
    measured_s: float
    results: int
    rise_per_s: float = 0.0


class Measurements:
    """Runs, each done once.

    Parameters
    ----------
    store : Store
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._content = sources(("host", "penstock", "bench/host"), ())

    def of(self, run: Run) -> Measured:
        """What a run gave."""

        def measure() -> dict[str, Any]:
            with opened(run.units) as device:
                return open_loop.run(
                    device,
                    self._beside(device, run) if run.measured_load else self.traffic(run),
                    latency_s=run.target_s,
                    measured_s=run.measured_s,
                    ordered=run.ordered,
                    rise_per_s=run.rise_per_s,
                ).as_json()

        return Measured.from_json(self._get("run", run, measure))

    def overheads(self, units: int, batches: int) -> list[overhead.Overhead]:
        """Tasks of a system, one at a time per lane."""

        def measure() -> list[dict[str, Any]]:
            with opened(units) as device:
                # Tasks of some 15 ms on two cores, and about as long on 32 units.
                return [asdict(one) for one in overhead.measure(device, 1 << 17, 1 << 14, batches)]

        found = self._get("overhead", {"units": units, "batches": batches}, measure)
        return [overhead.Overhead(**one) for one in found]

    def hidden_share(self, units: int, batches: int) -> float:
        """Share of a system's copying that lies beside a task, with two orders in flight."""

        def measure() -> float:
            with opened(units) as device:
                spans = overhead.trace(device, 1 << 17, 1 << 14, batches, depth=2)
                return overhead.hidden_share(spans)

        return self._get("hidden", {"units": units, "batches": batches}, measure)

    def gaps(self, units: int) -> list[float]:
        """What a lane of a system's device waits between two tasks of a batch of many."""

        def measure() -> list[float]:
            with opened(units) as device:
                spans = overhead.trace(device, 1 << 17, 1 << 20, 1, depth=2)
                return overhead.gaps(spans, device.lanes)

        return self._get("gaps", {"units": units}, measure)

    def overloaded(self, units: int, plan: overload.Plan) -> overload.Outcome:
        """A system under too much load."""

        def measure() -> dict[str, Any]:
            with opened(units) as device:
                return asdict(overload.run(device, plan))

        step = {"units": units, "plan": asdict(plan)}
        return overload.Outcome(**self._get("overload", step, measure))

    def traffic(self, run: Run) -> Traffic:
        """What arrives in a run."""
        return self._sustained(run, run.load)

    def _beside(self, device: Device, run: Run) -> Traffic:
        # Compared where batches are large: a closed loop makes larger ones than a short target.
        large = self._sustained(replace(run, target_s=_LARGE_S), 1.0)
        found = sustained_per_s(device, large, _LARGE_S, _BESIDE_S)
        wanted = self.traffic(run)
        return wanted.at(wanted.rate_per_s * found / large.rate_per_s)

    def rate_per_s(self, run: Run, load: float = 1.0) -> float:
        """Rate at which a share of the system's time is predicted to be used."""
        return self._sustained(run, load).rate_per_s

    def _sustained(self, run: Run, load: float) -> Traffic:
        asked = Traffic(
            workload=run.workload,
            rate_per_s=1.0,
            ratio=run.ratio,
            window_s=run.window_s,
            results_per_s=run.results / run.measured_s,
        )
        return asked.sustained(self.model(run.units), run.target_s, load)

    def model(self, units: int) -> Model:
        """The performance model of a system."""
        if units != CPU:
            return PipelineModel(units=units // LANES, clock_hz=CLOCK_HZ, pipelines=LANES)

        def measure() -> dict[str, Any]:
            with opened(CPU) as device:
                return asdict(calibrate(device))

        return Cores(**self._get("calibration", {}, measure))

    def _get(self, what: str, of: Any, measure: Any) -> Any:
        step = of if isinstance(of, dict) else asdict(of)
        return self.store.get({"what": what, **step}, self._content, measure)


def opened(units: int) -> Device:
    """A system."""
    if units == CPU:
        return open_device("cpu")
    return ModelledDevice(units // LANES, lanes=LANES)


def name_of(units: int) -> str:
    """What a system is called."""
    return "cpu" if units == CPU else f"{units} units"


def at_load(run: Run, load: float) -> Run:
    """The same at another load."""
    return replace(run, load=load)
