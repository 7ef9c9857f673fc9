"""``penstock demo``: joins two streams of a city from Spark and in the simulated pipeline."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.host.device.base import Device
from penstock.host.device.registry import open_device
from penstock.host.join.table.table_join import TableJoin
from penstock.host.rows.files import read_table
from penstock.spark_bridge.java import ensure_java

from ..errors import DataError, MissingToolError, installing
from ..query import JoinQuery, compile_query
from ..words import count
from .options import application, option
from .terminal import NUMBERS, errors, note, results, table

if TYPE_CHECKING:
    from penstock.sim.amaranth_device import Cycle

_SELECT = (
    "SELECT o.id AS o_id, g.id AS g_id, o.lon AS lon, o.lat AS lat, g.lon AS g_lon, g.lat AS g_lat"
)
#: Orders and positions of the slice that is simulated: a few thousand cycles, some seconds.
_SLICE_ORDERS = 360
_SLICE_POSITIONS = 4_000
#: Packages that it needs, and the extras that bring them.
_PACKAGES = {"pyspark": "spark", "amaranth": "rtl", "matplotlib": "demo"}


@application
def app(
    out: Path = option(
        "Folder for the streams, the result, the picture.", default=Path("build/demo")
    ),
    seconds: int = option("Length of the streams.", default=3_600, min=1, max=86_400),
    diff: int = option(
        "Manhattan distance in steps of 1e-5 degree.", default=120, min=1, max=100_000
    ),
    window: int = option("Seconds before and after an order.", default=180, min=0, max=86_400),
    units: int = option("Join units of the simulated pipeline.", default=32, min=1, max=1_024),
    seed: int = option("Of the generated city.", default=1),
) -> None:
    """Join ride orders with vehicle positions nearby: CPU, Spark, and simulated hardware."""
    _require_packages()
    tables = _generate(out, seconds, seed)
    query = _query(tables, diff, window)
    report = table("where", "rows", "evaluations", "seconds", "evaluations/s", right=NUMBERS)
    direct = _on_cpu(query, tables)
    report.add_row("cpu device, from Arrow", *direct.cells())
    spark = _on_spark(query, out, direct.evaluations)
    report.add_row("cpu device, from Spark", *spark.cells())
    _check_same("Spark", spark.table, direct.table)
    simulated, trace = _simulated(query, tables, units)
    report.add_row(f"simulated pipeline, {units} units, a slice", *simulated.cells())
    results.print(report)
    flits, cycles, many = (simulated.counters[n] for n in ("window_flits", "cycles", "passes"))
    passes = "1 pass" if many == 1 else f"{many} passes"
    results.print(
        f"\nRows agree everywhere. The pipeline took {flits / cycles:.3f} window tuples per cycle "
        f"over {count(cycles)} cycles in {passes}: at 300 MHz its {units} units would do "
        f"{simulated.evaluations / cycles * 0.3:.1f} G evaluations/s on this slice.",
        highlight=False,
    )
    path = out / "demo.png"
    with _step(f"drawing {path}"):
        from .picture import draw

        draw(path, tables, direct.table, trace, units, diff, window)


def _require_packages() -> None:
    """Look for all that the demo needs, before it does anything.

    Raises
    ------
    MissingToolError
    """
    missing = {name: extra for name, extra in _PACKAGES.items() if find_spec(name) is None}
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise MissingToolError(
            f"the demo needs {', '.join(missing)}, which {verb} not installed; "
            f"{installing(','.join(missing.values()))}"
        )
    ensure_java()


@dataclass(frozen=True)
class _Run:
    """One run of the join: its rows, and its time."""

    table: pa.Table
    evaluations: int
    seconds: float
    counters: Mapping[str, int] = field(default_factory=dict)

    def cells(self) -> tuple[str, str, str, str]:
        rate = self.evaluations / self.seconds
        shown = f"{rate / 1e9:.2f} G" if rate > 1e8 else f"{rate / 1e6:.3f} M"
        return count(self.table.num_rows), count(self.evaluations), f"{self.seconds:.2f}", shown


def _run(query: JoinQuery, tables: dict[str, pa.Table], device: Device) -> _Run:
    began = time.perf_counter()
    join = TableJoin(query, tables, device)
    rows = pa.Table.from_batches(join, join.schema)
    seconds = time.perf_counter() - began
    return _Run(rows, join.stats.pairs_evaluated, seconds, join.stats.counters)


@contextmanager
def _step(task: str) -> Iterator[None]:
    began = time.perf_counter()
    with errors.status(f"{task} ..."):
        yield
    note(f"{task}: {time.perf_counter() - began:.1f} s")


def _generate(out: Path, seconds: int, seed: int) -> dict[str, pa.Table]:
    from penstock.sim.workloads import City

    with _step(f"generating {seconds} s of a city in {out}"):
        City(seconds=seconds, seed=seed).write(out)
        return {name: read_table(out / f"{name}.parquet") for name in ("orders", "gps")}


def _query(tables: dict[str, pa.Table], diff: int, window: int) -> JoinQuery:
    from penstock.sim.workloads import city

    text = city.query(diff, window_s=window).replace("SELECT *", _SELECT)
    return compile_query(text, {name: table.schema for name, table in tables.items()})


def _on_cpu(query: JoinQuery, tables: dict[str, pa.Table]) -> _Run:
    with open_device("cpu") as device:
        # Compiles the kernel, or loads it.
        _run(query, {name: table.slice(0, 1000) for name, table in tables.items()}, device)
        with _step("joining on the cpu device"):
            return _run(query, tables, device)


def _on_spark(query: JoinQuery, out: Path, evaluations: int) -> _Run:
    from penstock.sim.local_spark.local_session import local_session

    from .. import spark_bridge

    with _step("starting Spark"):
        spark = local_session("penstock demo")
    try:
        frames = {
            name: spark.read.parquet(str(out / f"{name}.parquet")) for name in ("orders", "gps")
        }
        with _step("joining from Spark"):
            began = time.perf_counter()
            spark_bridge.sql(spark, query.text, frames).write.mode("overwrite").parquet(
                str(out / "joined")
            )
            seconds = time.perf_counter() - began
        return _Run(read_table(out / "joined"), evaluations, seconds)
    finally:
        spark.stop()


def _simulated(
    query: JoinQuery, tables: dict[str, pa.Table], units: int
) -> tuple[_Run, list[Cycle]]:
    """Join a slice in the pipeline, and compare with the CPU; give its cycles, too."""
    from penstock.sim.amaranth_device import AmaranthDevice

    part = _slice(tables)
    with open_device("cpu") as device:
        expected = _run(query, part, device)
    with (
        closing(AmaranthDevice(units=units, trace=True)) as pipeline,
        _step(f"simulating a pipeline of {units} units"),
    ):
        simulated = _run(query, part, pipeline)
        trace = pipeline.trace
    _check_same("the simulated pipeline", simulated.table, expected.table)
    return simulated, trace


def _slice(tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """Take some orders of the whole run, and all positions of some vehicles."""
    orders, gps = tables["orders"], tables["gps"]
    every = max(orders.num_rows // _SLICE_ORDERS, 1)
    share = max(gps.num_rows // _SLICE_POSITIONS, 1)
    return {
        "orders": orders.take(pa.array(np.arange(0, orders.num_rows, every))),
        "gps": gps.filter(pa.array(gps["vehicle"].to_numpy() % share == 0)),
    }


def _check_same(name: str, rows: pa.Table, expected: pa.Table) -> None:
    """Check that both have the same rows, each as often.

    Raises
    ------
    DataError
        They differ.
    """
    if not np.array_equal(_sorted_pairs(rows), _sorted_pairs(expected)):
        raise DataError(
            f"{name} gave {rows.num_rows} rows that are not the {expected.num_rows} rows of the "
            "cpu device: this is a bug, please report it"
        )


def _sorted_pairs(table: pa.Table) -> np.ndarray:
    pairs = np.stack([table["o_id"].to_numpy(), table["g_id"].to_numpy()])
    return pairs[:, np.lexsort(pairs)]
