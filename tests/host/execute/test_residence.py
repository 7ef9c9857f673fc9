"""Blocks that stay prepared and loaded: the same rows, and only what is new travels."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.host.device.base import Device
from penstock.host.device.cut import Cutting
from penstock.host.devices.remote.client.device import RemoteDevice
from penstock.host.devices.remote.server.limits import ServerLimits
from penstock.host.devices.remote.server.residents import Gone
from penstock.host.devices.remote.server.service import DeviceServer
from penstock.host.execute.prepared import PreparedBlocks
from penstock.host.execute.residence import BlockCache, Residence
from penstock.host.join.step import Kept, Share, StepOutput
from penstock.host.keys.prepare import layout, stream_values, window_keys
from penstock.host.rows.sides import Loaded, read_side
from penstock.host.rows.stretches import NamedBlock, window_parts
from penstock.plan.plan import plan
from penstock.plan.query import LEFT, RIGHT, JoinQuery, named_by_side, other
from penstock.plan.window import FOREVER, NEVER
from penstock.query import compile_query
from tests.host.kit.serving import HANGING_SERVER, serving, socket_address
from tests.host.kit.steps import TIME, check
from tests.host.kit.streams import SCHEMA, batch_of
from tests.kit.effort import examples
from tests.penstock.kit.devices import InterpretingCpu

SCHEMAS = {"a": SCHEMA, "b": SCHEMA}
SEEDS = st.integers(0, 1 << 32)
CACHES = st.sampled_from((0, 2000, 1 << 24))
NEAR = "abs(a.t - b.t) <= 6 AND a.x = b.x"
QUERIES = {
    **{
        kind: (f"SELECT a.n AS a{output} FROM a {kind} JOIN b ON {NEAR}", {})
        for kind, output in {
            "INNER": ", b.n AS b",
            "FULL": ", b.n AS b",
            "LEFT SEMI": "",
            "LEFT ANTI": "",
        }.items()
    },
    "asymmetric": (
        "SELECT a.n AS a, b.n AS b FROM a JOIN b ON b.t BETWEEN a.t - 7 AND a.t "
        "AND b.x BETWEEN a.x AND a.x + 1",
        {},
    ),
    "general": (
        "SELECT a.n AS a, b.n AS b FROM a JOIN b ON abs(a.t - b.t) <= 6 AND a.x * b.x < 3",
        {},
    ),
    "rows": ("SELECT a.n AS a, b.n AS b FROM a JOIN b ON a.x = b.x", {"rows": {"a": 5, "b": 7}}),
    "nearest": (
        "SELECT a.n AS n, count(*) AS k, min_by(b.n, abs(a.t - b.t)) AS m, max(b.x) AS x, "
        f"sum(b.x) AS s, avg(b.x * 0.1D) AS f FROM a JOIN b ON {NEAR} GROUP BY a.n",
        {"unique": {"a": "n"}},
    ),
    "groups": (
        f"SELECT a.t AS t, b.x AS x, count(*) AS k FROM a JOIN b ON {NEAR} GROUP BY a.t, b.x",
        {},
    ),
}
scopes = count()


@pytest.fixture(scope="module")
def cpu() -> Iterator[Device]:
    with InterpretingCpu(threads=1) as opened:
        yield opened


@pytest.fixture(scope="module")
def server() -> Iterator[DeviceServer]:
    with serving({"cpu": InterpretingCpu(1)}) as opened:
        yield opened


@pytest.fixture(scope="module")
def remote(server: DeviceServer) -> Iterator[Device]:
    with RemoteDevice(str(server.address)) as opened:
        yield opened


def home(most_bytes: int = 1 << 24, *, scope: str = "", stays: bool = True) -> Residence:
    return Residence(scope or f"scope {next(scopes)}", BlockCache(most_bytes), device_stays=stays)


def query(name: str) -> tuple[JoinQuery, dict]:
    """A compiled query, and the options that a join of tables has, too."""
    text, options = QUERIES[name]
    made = compile_query(text, SCHEMAS, time=TIME, **options)
    return made, {key: value for key, value in options.items() if key != "unique"}


@settings(deadline=None, max_examples=examples(25))
@given(SEEDS, st.sampled_from(sorted(QUERIES)), st.integers(1, 3), CACHES)
def test_the_same_rows_with_prepared_blocks(
    cpu: Device, seed: int, name: str, lanes: int, most_bytes: int
) -> None:
    made, options = query(name)
    check(made, options, seed, lanes, cpu, residence=home(most_bytes))


@settings(deadline=None, max_examples=examples(12))
@given(SEEDS, st.sampled_from(sorted(QUERIES)), st.integers(1, 2), st.booleans())
def test_the_same_rows_with_windows_in_a_server(
    cpu: Device, remote: Device, seed: int, name: str, lanes: int, stays: bool
) -> None:
    made, options = query(name)
    residence = home(stays=stays)
    check(made, options, seed, lanes, remote, residence=residence, reference=cpu)


# -- what travels ---------------------------------------------------------------------------------

#: One program in each direction, and no rows without a block.
MADE = named_by_side(
    compile_query(
        "SELECT a.n AS a, b.n AS b FROM a JOIN b ON abs(a.t - b.t) <= 1000 AND a.x <= b.x",
        SCHEMAS,
        time=TIME,
    )
)


def block(side: str, k: int, made: JoinQuery) -> Loaded:
    """The rows of a step on one side."""
    rows = [(n, n, n * (7 if side == LEFT else 3) % 10) for n in range(10 * k, 10 * k + 10)]
    table = pa.Table.from_batches([batch_of(rows)])
    read = read_side(made, made.side(side), table)
    return Loaded.of_block(NamedBlock(f"{side}{k}", read.timed), table, NEVER, FOREVER)


class Blocks(Kept):
    """Ten rows of each side per step; each step's are a block."""

    def __init__(self, step: int, made: JoinQuery) -> None:
        self.step, self.made = step, made

    def old(self, side: str, low: int, high: int) -> Loaded:
        none = block(side, 0, self.made).pick(slice(0)).unnamed()
        return Loaded.concat([none, *(block(side, k, self.made) for k in range(self.step))])

    def new(self, side: str) -> Loaded:
        return block(side, self.step, self.made)


def steps(device: Device, home: Residence | None, numbers: range) -> int:
    """Steps with two lanes; how many pairs they give."""
    found = 0
    for k in numbers:
        if home is not None:
            home.keep(device, [f"{side}{n}" for side in (LEFT, RIGHT) for n in range(k + 1)])
        before, after = (dict.fromkeys((LEFT, RIGHT), 10 * n) for n in (k - 1, k))
        step = StepOutput(MADE, device, before, after, residence=home)
        for lane in range(2):
            found += sum(batch.num_rows for batch in step.run(Blocks(k, MADE), Share(lane, 2)))
    return found


def travelled(server: DeviceServer) -> int:
    """Rows of windows that came from clients."""
    return server.owners["cpu"].counters["window_rows"]


def test_only_the_increment_travels(cpu: Device) -> None:
    """Each row once, though another worker runs each step and that of before is gone."""
    with serving({"cpu": InterpretingCpu(1)}) as server:
        owner, found = server.owners["cpu"], 0
        for k in range(6):
            with RemoteDevice(str(server.address)) as worker:
                found += steps(worker, home(scope="q"), range(k, k + 1))
            # New left rows meet all right ones; new right rows meet the left ones of before.
            assert travelled(server) == 10 * (k + 1) + 10 * k
        assert found == steps(cpu, None, range(6))
        assert owner.residents.counts["loads"] == 6 + 5
        assert not owner.residents.dropped
        assert owner.residents.held()[0] == 6 + 5
        with RemoteDevice(str(server.address)) as worker:
            home(scope="q").keep(worker, ["l4", "r5"])
            home(scope="another").keep(worker, [])
        assert owner.residents.dropped == {Gone.UNNAMED: 9}


def test_a_window_stays_as_long_as_a_task_reads_it(
    remote: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    freed = []
    evaluation = plan(MADE).candidates()[0]
    side = evaluation.form.window
    rows = block(side, 0, MADE)
    (part,) = window_parts(rows.rows, rows.stretches)
    options = ({LEFT: "a", RIGHT: "b"}, Cutting.for_devices([remote]), None)
    with closing(PreparedBlocks(f"scope {next(scopes)}", [remote], *options)) as prepared:
        run = prepared.run_of(evaluation, part)
        keys = window_keys(evaluation.form, rows.rows.columns, 10)
        stream = block(other(side), 0, MADE).rows
        values = stream_values(evaluation.form, stream.columns, 10)
        made = layout(evaluation.form, keys, values, remote.key_widths)
        (memory,) = prepared.memories
        first, second = (memory.lease(run, made, 0, run.end, 10.0) for _ in range(2))
        assert first.window is second.window
        monkeypatch.setattr(first.window.buffers[0], "free", lambda: freed.append(True))
        memory.release(first)
        assert not freed
        memory.release(second)
        assert freed


def test_without_residence_all_of_it_travels(cpu: Device) -> None:
    with serving({"cpu": InterpretingCpu(1)}) as server, RemoteDevice(str(server.address)) as one:
        assert steps(one, None, range(6)) == steps(cpu, None, range(6))
        # Per step and lane: new right rows and all old ones, of both sides.
        assert travelled(server) == sum(2 * (10 + 20 * k) for k in range(6))


def test_another_query_never_finds_these_windows(cpu: Device) -> None:
    """Not even one that is kept under the same scope and names, of rows that are different."""
    another = named_by_side(
        compile_query(
            "SELECT a.n AS a, b.n AS b FROM a JOIN b ON abs(a.t - b.t) <= 1000 AND a.n <= b.n",
            SCHEMAS,
            time=TIME,
        )
    )
    at = dict.fromkeys((LEFT, RIGHT), 0)
    with serving({"cpu": InterpretingCpu(1)}) as server, RemoteDevice(str(server.address)) as one:
        steps(one, home(scope="q"), range(1))
        step = StepOutput(another, one, at, at, residence=home(scope="q"))
        plain = StepOutput(another, cpu, at, at)
        found, wanted = (sum(b.num_rows for b in s.run(Blocks(0, another))) for s in (step, plain))
        assert found == wanted
        assert travelled(server) == 20
        assert server.owners["cpu"].residents.counts["hits"] == 1  # of the second lane above


def test_a_lane_that_moves_to_another_host_loads_what_it_needs_there(cpu: Device) -> None:
    with (
        serving({"cpu": InterpretingCpu(1)}) as here,
        serving({"cpu": InterpretingCpu(1)}) as there,
        RemoteDevice(str(here.address)) as first,
        RemoteDevice(str(there.address)) as second,
    ):
        own = home(scope="q")
        found = steps(first, own, range(3)) + steps(second, own, range(3, 5))
        assert travelled(there) == 50 + 40
        found += steps(first, own, range(5, 6))
        assert found == steps(cpu, None, range(6))
        assert travelled(here) == 60 + 50


def test_memory_for_one_window_at_a_time(cpu: Device) -> None:
    """Windows of before make way; two lanes at once wait for each other, and lose nothing."""
    limits = ServerLimits(
        memory_bytes=20, client_memory_bytes=20
    )  # a window has ten codes of 16 bits
    with serving({"cpu": InterpretingCpu(1)}, limits) as server:
        with ThreadPoolExecutor(2) as threads:
            found = list(threads.map(_worker, [str(server.address)] * 2))
        assert found == [steps(cpu, None, range(4))] * 2
        residents = server.owners["cpu"].residents
        assert residents.dropped[Gone.MEMORY] > 0
        assert residents.held()[0] <= 1


def _worker(address: str) -> int:
    with RemoteDevice(address) as one:
        return steps(one, home(scope="q"), range(4))


def test_a_server_that_is_killed_gets_its_windows_again(cpu: Device) -> None:
    """The step goes on with the server that follows, which gets what it needs."""
    with socket_address() as address, ThreadPoolExecutor(1) as threads:
        process = subprocess.Popen(
            [sys.executable, "-c", HANGING_SERVER, address],
            cwd=Path(__file__).parents[3],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "serving"
            with RemoteDevice(address, resume_s=30.0) as worker:
                own = home(scope="q")
                running = threads.submit(steps, worker, own, range(3, 4))
                assert process.stdout.readline().strip() == "running"
                process.kill()
                process.wait(30)
                with serving({"cpu": InterpretingCpu(1)}, address=address) as server:
                    found = running.result(30) + steps(worker, own, range(4, 6))
                    assert found == steps(cpu, None, range(3, 6))
                    assert travelled(server) == 60 + 50
        finally:
            process.kill()
            process.communicate(timeout=30)
