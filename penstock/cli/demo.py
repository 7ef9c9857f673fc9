"""``penstock demo``: joins two streams of a city from Spark and in the simulated pipeline."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from penstock.host.device.base import Device
from penstock.host.device.registry import open_device
from penstock.host.join.table.table_join import TableJoin
from penstock.host.prune.sizes import DEFAULT_PRUNING, Pruning
from penstock.host.rows.files import read_table
from penstock.spark_bridge.java import ensure_java

from ..errors import DataError, MissingToolError, installing
from ..query import JoinQuery, compile_query
from ..words import count, many, per_second
from .options import application, option
from .terminal import NUMBERS, errors, note, results, table

if TYPE_CHECKING:
    from penstock.sim.amaranth_device import Cycle

_SELECT = (
    "SELECT o.id AS o_id, g.id AS g_id, o.lon AS lon, o.lat AS lat, g.lon AS g_lon, g.lat AS g_lat"
)
#: Positions of the slice that is simulated, about a cycle each: some seconds.
_SLICE_POSITIONS = 2_000
#: Windows that it is long.
_SLICE_WINDOWS = 4
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
    report = table(
        "", "rows", "pairs in window", "tested", "first run", "second run", right=NUMBERS
    )
    direct = _on_cpu(query, tables)
    report.add_row("cpu, from Arrow", *direct.cells())
    spark = _on_spark(query, out, direct.pairs_in_window)
    report.add_row("cpu, from Spark", *spark.cells())
    _check_same("Spark", spark.table, direct.table)
    simulated, trace = _simulated(query, _slice(tables, units, window), units)
    report.add_row("simulated, a slice", *simulated.cells())
    results.print(report)
    flits, cycles, passes = (simulated.counters[n] for n in ("window_flits", "cycles", "passes"))
    again, tested = direct.seconds[-1], direct.evaluations or 0
    rate = (simulated.evaluations or 0) / cycles * 300e6
    results.print(
        "\nRows agree everywhere. A first run also compiles, or starts workers. The second one on "
        f"the cpu decided {per_second(direct.pairs_in_window / again, 'pairs')} of the window, and "
        f"tested {per_second(tested / again, 'pairs')}.\n"
        f"The pipeline of {units} units took {flits / cycles:.3f} window tuples per cycle over "
        f"{many(cycles, 'cycle')} in {many(passes, 'pass')}: at 300 MHz it would test "
        f"{per_second(rate, 'pairs')} of this slice.",
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
    """One or two runs of the join: the rows of the last, and how long each took.

    ``evaluations`` is None where it is not known.
    """

    table: pa.Table
    pairs_in_window: int
    evaluations: int | None
    seconds: tuple[float, ...]
    counters: Mapping[str, int] = field(default_factory=dict)

    def cells(self) -> Iterator[str]:
        yield count(self.table.num_rows)
        yield count(self.pairs_in_window)
        yield "-" if self.evaluations is None else count(self.evaluations)
        for one in self.seconds:
            yield f"{one:.2f} s"


def _run(
    query: JoinQuery,
    tables: dict[str, pa.Table],
    device: Device,
    pruning: Pruning | None = DEFAULT_PRUNING,
) -> _Run:
    began = time.perf_counter()
    join = TableJoin(query, tables, device, pruning=pruning)
    rows = pa.Table.from_batches(join, join.schema)
    took, stats = (time.perf_counter() - began,), join.stats
    return _Run(rows, stats.pairs_in_window, stats.pairs_evaluated, took, stats.counters)


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
    with open_device("cpu") as device, _step("joining twice on the cpu device"):
        first, second = (_run(query, tables, device) for _ in range(2))
        return replace(second, seconds=first.seconds + second.seconds)


def _on_spark(query: JoinQuery, out: Path, pairs_in_window: int) -> _Run:
    from penstock.sim.local_spark.local_session import local_session

    from .. import spark_bridge

    with _step("starting Spark"):
        spark = local_session("penstock demo")
    try:
        frames = {
            name: spark.read.parquet(str(out / f"{name}.parquet")) for name in ("orders", "gps")
        }
        seconds = []
        with _step("joining twice from Spark"):
            for _ in range(2):
                began = time.perf_counter()
                joined = spark_bridge.sql(spark, query.text, frames)
                joined.write.mode("overwrite").parquet(str(out / "joined"))
                seconds.append(time.perf_counter() - began)
        return _Run(read_table(out / "joined"), pairs_in_window, None, tuple(seconds))
    finally:
        spark.stop()


def _simulated(query: JoinQuery, part: dict[str, pa.Table], units: int) -> tuple[_Run, list[Cycle]]:
    """Join a slice in the pipeline, and compare with the CPU; give its cycles, too."""
    from penstock.sim.amaranth_device import AmaranthDevice

    with open_device("cpu") as device:
        expected = _run(query, part, device)
    with (
        closing(AmaranthDevice(units=units, trace=True)) as pipeline,
        _step(f"simulating a pipeline of {units} units"),
    ):
        # One task with every pair of the window, so that all units work until its end.
        pipeline.task_evaluations = len(part["orders"]) * len(part["gps"]) + 1
        simulated = _run(query, part, pipeline, pruning=None)
        trace = pipeline.trace
    _check_same("the simulated pipeline", simulated.table, expected.table)
    return simulated, trace


def _slice(tables: dict[str, pa.Table], units: int, window: int) -> dict[str, pa.Table]:
    """Take positions of some vehicles for some windows, and orders that nearly fill the units.

    An order is in a unit while the positions within its window pass.
    """
    length = max(2 * window, 1)
    orders, gps = (
        one.filter(pa.array(_seconds(one) < _SLICE_WINDOWS * length))
        for one in (tables["orders"], tables["gps"])
    )
    lasts = max(_seconds(orders).max(initial=0.0), length)
    every = max(int(orders.num_rows * length / lasts / units), 1)
    share = max(gps.num_rows // _SLICE_POSITIONS, 1)
    return {
        "orders": orders.take(pa.array(np.arange(0, orders.num_rows, every))),
        "gps": gps.filter(pa.array(gps["vehicle"].to_numpy() % share == 0)),
    }


def _seconds(table: pa.Table) -> np.ndarray:
    """Seconds of each row since the first one."""
    times = table["ts"].to_numpy()
    return (times - times[:1]) / np.timedelta64(1, "s")


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
