"""What a trace and a report say of the tasks of a join of tables, by either operator."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.errors import DeviceError
from penstock.host.device.base import Device
from penstock.host.device.operator import Operator
from penstock.host.execute.trace import Trace
from penstock.host.join.table.operator_join import table_join
from penstock.query import compile_query
from tests.host.kit.faulty import FaultyDevice
from tests.penstock.kit.devices import InterpretingCpu

SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.int32())])


def join(device: Device, operator: Operator = Operator.RANGE, trace: Trace | None = None):
    schemas = {"a": SCHEMA, "b": SCHEMA}
    rows = 20 if operator is Operator.WINDOW else None
    on = "a.x = b.x" if rows else "a.x = b.x AND abs(a.t - b.t) <= 50"
    query = compile_query(
        f"SELECT a.t FROM a JOIN b ON {on}", schemas, time={"a": "t", "b": "t"}, rows=rows
    )
    table = pa.table({"t": range(200), "x": [k % 7 for k in range(200)]}, schema=SCHEMA)
    return table_join(operator)(query, {"a": table, "b": table}, device, trace=trace)


@pytest.mark.parametrize("operator", list(Operator))
def test_a_trace_has_all_tasks_and_their_work(operator: Operator, tmp_path: Path) -> None:
    with InterpretingCpu(threads=2) as device:
        trace = Trace(True)
        joined = join(device, operator, trace)
        assert [lane.name for lane in joined.lane_reports()] == ["cpu-0", "cpu-1"]
        rows = sum(batch.num_rows for batch in joined)
        report = joined.report()
        tasks = device.counters()["tasks"]
        trace.write(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    done = [event for event in spans if event["name"] == "task"]
    # The CPU does a task of the window operator as one for each side.
    assert tasks == len(done) * (2 if operator is Operator.WINDOW else 1) > 0
    evaluations = sum(event["args"].get("evaluations", 0) for event in done)
    assert evaluations == joined.stats.pairs_evaluated
    assert report.rows == rows
    assert report.arrived == {"a": 200, "b": 200}
    busy_s = sum(event["dur"] for event in done) / 1e6
    assert sum(lane.busy_s for lane in report.lanes) == pytest.approx(busy_s, abs=1e-5 * tasks)


@pytest.mark.parametrize("operator", list(Operator))
def test_failed_tasks_are_counted(operator: Operator) -> None:
    with InterpretingCpu(threads=1) as cpu, FaultyDevice(cpu, lambda: "error") as device:
        joined = join(device, operator)
        with pytest.raises(DeviceError, match="AXI error"):
            list(joined)
        assert sum(lane.failures for lane in joined.lane_reports()) > 0
