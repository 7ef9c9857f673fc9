"""Micro-batches of a theta join against a window: latency by window, lanes, residency."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import pyarrow as pa
from pyspark.sql import SparkSession

from bench.spark.streams import THETA, agree, pairs_of, points, run, source
from penstock.host.devices.cpu import CpuDevice
from penstock.host.devices.remote.server.limits import ServerLimits
from penstock.host.devices.remote.server.owner import DeviceOwner
from penstock.host.devices.remote.server.service import DeviceServer
from penstock.host.wire.address import Address
from penstock.spark_bridge import stream, watch

_RESIDENT = "spark.penstock.streaming.resident"


@dataclass(frozen=True)
class Case:
    """One way to run micro-batches.

    Parameters
    ----------
    window : int
        Rows of the window.
    rows : int
        New rows of a micro-batch.
    lanes : int
    resident : bool
        Whether windows stay prepared and loaded between micro-batches.
    device : str
        "cpu" in the workers, or "remote": a device server's CPU.
    pruning : bool
    """

    window: int
    rows: int
    lanes: int = 2
    resident: bool = True
    device: str = "cpu"
    pruning: bool = False


@dataclass(frozen=True)
class Measured:
    """What a case gave: the median of its micro-batches after the first two.

    Parameters
    ----------
    case : Case
    latency_s : float
        Of a micro-batch, all of it.
    travelled : float or None
        Rows of windows that went to the device server per micro-batch.
    device_share : float
        Share of a micro-batch's time in which a lane's device worked, 0 to 1.
    """

    case: Case
    latency_s: float
    travelled: float | None = None
    device_share: float = 0.0

    @property
    def evaluations_per_s(self) -> float:
        return self.case.rows * self.case.window / self.latency_s

    @property
    def rows_per_s(self) -> float:
        return self.case.rows / self.latency_s

    def as_json(self) -> dict:
        rates = {"evaluations_per_s": self.evaluations_per_s, "rows_per_s": self.rows_per_s}
        return asdict(self) | rates


def measured(spark: SparkSession, case: Case, batches: int) -> Measured:
    """Run a case.

    Raises
    ------
    PenstockError
        The pairs are not as many as NumPy finds.
    """
    spark.conf.set(_RESIDENT, str(case.resident).lower())
    try:
        with TemporaryDirectory(ignore_cleanup_errors=True) as name, _device(case) as (own, owner):
            return _measured(spark, case, batches, Path(name), own, owner)
    finally:
        spark.conf.unset(_RESIDENT)


def _measured(
    spark: SparkSession,
    case: Case,
    batches: int,
    folder: Path,
    own: dict,
    owner: DeviceOwner | None,
) -> Measured:
    resident = points(1, case.window)
    new = [points(2 + k, case.rows, k * case.rows) for k in range(batches + 2)]
    # The window arrives first; a row per batch keeps its source alive.
    alive = [points(99 + k, 1, case.window + k) for k in range(batches + 1)]
    sources = {"a": source(spark, folder / "a", new)}
    sources["b"] = source(spark, folder / "b", [resident, *alive])
    on = f"{THETA} AND b.t BETWEEN a.t - 1000000000 AND a.t + 1000000000"
    text = f"SELECT a.n AS a, b.n AS b FROM a JOIN b ON {on}"
    joined = stream(
        spark,
        text,
        sources,
        time={"a": "t", "b": "t"},
        disorder=0,
        pruning=case.pruning,
        lanes=case.lanes,
        **own,
    )
    heard = watch(spark)
    query = run(joined.writeStream.format("parquet"), folder)
    progress = query.recentProgress
    took = [p["durationMs"]["triggerExecution"] / 1000 for p in progress]
    heard.wait(query, progress[-1]["batchId"], timeout_s=60)
    share = median(batch.utilisation for batch in heard.batches(query)[2:])
    # The later single rows of b are in a few pairs, too, so only those of the window count.
    output = spark.read.schema(joined.schema).parquet(str(folder / "output"))
    found = output.where(f"b < {case.window}").count()
    agree(found, pairs_of(pa.concat_tables(new), resident), "Penstock")
    rows = None if owner is None else owner.counters["window_rows"] / len(took)
    return Measured(case, median(took[2:]), rows, share)


@contextmanager
def _device(case: Case) -> Iterator[tuple[dict, DeviceOwner | None]]:
    """Arguments that name the device, and the server's part of it."""
    if case.device == "cpu":
        yield {}, None
        return
    with TemporaryDirectory(prefix="pen") as folder:
        owner = DeviceOwner(CpuDevice(), ServerLimits())
        server = DeviceServer({"cpu": owner}, Address.parsed(f"unix://{folder}/s"))
        try:
            yield {"device": "remote", "device_options": {"address": str(server.address)}}, owner
        finally:
            server.close()


def cases(windows: tuple[int, ...], rows: int) -> list[Case]:
    """What is compared."""
    found = []
    for window in windows:
        for resident in (True, False):
            for device in ("cpu", "remote"):
                found.append(Case(window, rows, resident=resident, device=device))
        found.append(Case(window, rows, lanes=1))
    return found
