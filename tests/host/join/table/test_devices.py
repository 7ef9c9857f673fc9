"""Joins of tables on several devices, in order, with progress and traces: as those of streams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock import Running
from penstock.errors import DeviceError
from penstock.host.device.base import PAIRS, Device, Kernel
from penstock.host.device.wrapped import WrappedDevice
from penstock.host.execute.trace import Trace
from penstock.host.join.stream import Flow, JoinStream
from penstock.host.join.table.table_join import TableJoin
from penstock.program import AnyProgram, Mode
from penstock.query import compile_query
from tests.host.kit.faulty import FaultyDevice
from tests.kit.effort import effort
from tests.penstock.kit.devices import InterpretingCpu

TIME = {"a": "t", "b": "t"}
NEAR = "abs(a.x - b.x) <= 2 AND b.t BETWEEN a.t - 20 AND a.t + 20"
QUERIES = {
    "pairs": (f"SELECT a.n AS a, b.n AS b FROM a JOIN b ON {NEAR}", {}),
    "full": (f"SELECT a.n AS a, b.n AS b FROM a FULL JOIN b ON {NEAR}", {}),
    "semi": (f"SELECT a.n AS a FROM a LEFT SEMI JOIN b ON {NEAR}", {}),
    "anti": (f"SELECT a.n AS a FROM a LEFT ANTI JOIN b ON {NEAR}", {}),
    "rows": ("SELECT a.n AS a, b.n AS b FROM a JOIN b ON a.x < b.x", {"rows": 9}),
    "folds": (
        f"SELECT a.x AS x, count(*) AS k, min_by(b.n, abs(a.t - b.t)) AS m, sum(b.f) AS s "
        f"FROM a JOIN b ON {NEAR} GROUP BY a.x",
        {},
    ),
    "groups": (f"SELECT a.x AS x, b.x AS y, count(*) AS k FROM a JOIN b ON {NEAR} "
               "GROUP BY a.x, b.x", {}),
}  # fmt: skip
#: Small tasks, so that every device gets some.
SMALL = Running(task_evaluations=2000)


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    rng = np.random.default_rng(7)

    def made(rows: int) -> pa.Table:
        return pa.table(
            {
                "n": np.arange(rows),
                "t": np.sort(rng.integers(0, 3000, rows)),
                "x": rng.integers(0, 50, rows).astype(np.int32),
                "f": rng.random(rows),
            }
        )

    return {"a": made(2000), "b": made(2500)}


@pytest.fixture(scope="module")
def cpu() -> Iterator[Device]:
    with InterpretingCpu(threads=2) as opened:
        yield opened


def rows_of(table: pa.Table) -> Counter:
    return Counter(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("fate", ["ok", "error", "every third"])
def test_two_devices_of_which_one_fails(
    tables: dict[str, pa.Table], cpu: Device, name: str, fate: str
) -> None:
    text, options = QUERIES[name]
    numbers = count()

    def fates() -> str:
        return ("ok" if next(numbers) % 3 else "error") if fate == "every third" else fate

    wanted = penstock.sql(text, tables, time=TIME, device=cpu, running=SMALL, **options)
    with FaultyDevice(cpu, fates) as other:
        found = penstock.sql(
            text, tables, time=TIME, device=[cpu, other], running=SMALL, pruning=False, **options
        )
        assert other.tasks > 0
    assert rows_of(found) == rows_of(wanted)


def test_devices_that_all_fail(tables: dict[str, pa.Table], cpu: Device) -> None:
    text, _ = QUERIES["pairs"]
    with (
        FaultyDevice(cpu, lambda: "error") as one,
        FaultyDevice(cpu, lambda: "error") as another,
        pytest.raises(DeviceError, match="AXI error"),
    ):
        penstock.sql(text, tables, time=TIME, device=[one, another], running=SMALL)


class Closed(WrappedDevice):
    """Small orders would run in the calling thread, but no program can be loaded."""

    runs_here = True

    def open(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> Kernel:
        raise DeviceError("no program fits")


def test_a_device_that_loads_no_program(tables: dict[str, pa.Table], cpu: Device) -> None:
    few = {name: table.slice(0, 50) for name, table in tables.items()}
    text, _ = QUERIES["pairs"]
    wanted = penstock.sql(text, few, time=TIME, device=cpu)
    assert rows_of(penstock.sql(text, few, time=TIME, device=[Closed(cpu), cpu])) == rows_of(wanted)
    with pytest.raises(DeviceError, match="no program fits"):
        penstock.sql(text, few, time=TIME, device=Closed(cpu))


def test_a_device_that_hangs_loses_its_tasks_to_the_other(
    tables: dict[str, pa.Table], cpu: Device
) -> None:
    text, _ = QUERIES["pairs"]
    wanted = penstock.sql(text, tables, time=TIME, device=cpu)
    fates = iter(["ok", "hang"])
    running = Running(task_evaluations=2000, timeout_s=0.2)
    with FaultyDevice(cpu, lambda: next(fates, "ok")) as other:
        try:
            found = penstock.sql(
                text, tables, time=TIME, device=[cpu, other], running=running, pruning=False
            )
        finally:
            other.release()
    assert rows_of(found) == rows_of(wanted)


@pytest.mark.parametrize("name", ["pairs", "full", "semi", "anti", "rows"])
def test_order(tables: dict[str, pa.Table], cpu: Device, name: str) -> None:
    """That of paper 1, section 3.4: by the later row, then by the earlier one."""
    text, options = QUERIES[name]
    running = Running(ordered=True, task_evaluations=2000)
    found = penstock.sql(text, tables, time=TIME, device=cpu, running=running, **options)
    arrived = {
        side: (table["t"].to_numpy(), np.arange(table.num_rows)) for side, table in tables.items()
    }
    keys = []
    for row in found.to_pylist():
        own = [
            (int(arrived[side][0][n]), k, n)
            for k, side in enumerate("ab")
            if (n := row.get(side)) is not None
        ]
        keys.append((max(own), min(own)))
    assert keys == sorted(keys)
    assert len(keys) > 50
    plain = penstock.sql(text, tables, time=TIME, device=cpu, **options)
    assert rows_of(found) == rows_of(plain)


def test_order_is_that_of_the_same_rows_in_a_stream(
    tables: dict[str, pa.Table], cpu: Device
) -> None:
    text, _ = QUERIES["pairs"]
    tables = {name: table.slice(0, effort(table.num_rows, 500)) for name, table in tables.items()}
    ordered = Running(ordered=True)
    schemas = {name: table.schema for name, table in tables.items()}
    query = compile_query(text, schemas, time=TIME)
    with JoinStream(query, schemas, cpu, flow=Flow(running=ordered)) as stream:
        moments = np.unique(np.concatenate([t["t"].to_numpy() for t in tables.values()]))
        for moment in moments.tolist():
            for name, table in tables.items():
                now = table.filter(pa.compute.equal(table["t"], moment)).combine_chunks()
                for batch in now.to_batches():
                    stream.push(name, batch)
        wanted = stream.close()
    found = penstock.sql(text, tables, time=TIME, device=cpu, running=ordered)
    assert found.to_pylist() == wanted.to_pylist()


@pytest.mark.parametrize("name", QUERIES)
def test_progress_and_trace(tables: dict[str, pa.Table], cpu: Device, name: str) -> None:
    text, options = QUERIES[name]
    schemas = {side: table.schema for side, table in tables.items()}
    query = compile_query(text, schemas, time=TIME, **options)
    trace, seen = Trace(True), []
    join = TableJoin(
        query,
        tables,
        cpu,
        running=SMALL,
        pruning=None,
        trace=trace,
        on_progress=lambda done, total: seen.append((done, total)),
    )
    for _ in join:
        pass
    assert seen[-1] == (join.pairs_to_evaluate, join.pairs_to_evaluate)
    assert seen == sorted(seen)
    done = [span for span in trace.spans if span.name == "task"]
    assert {span.track for span in done} <= {"cpu-0 device", "cpu-1 device"}
    assert sum(span.numbers["evaluations"] for span in done) == join.stats.pairs_evaluated
    assert sum(lane.busy_s for lane in join.lane_reports()) > 0


def test_closing_early_ends_what_runs(tables: dict[str, pa.Table], cpu: Device) -> None:
    text, _ = QUERIES["pairs"]
    schemas = {side: table.schema for side, table in tables.items()}
    join = TableJoin(compile_query(text, schemas, time=TIME), tables, cpu, running=SMALL)
    rows = join.run(join.delivery())
    next(rows)
    rows.close()
    # What was begun is over, and the device serves the next join.
    assert penstock.sql(text, tables, time=TIME, device=cpu).num_rows > 0
