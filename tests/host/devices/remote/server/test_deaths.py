"""Processes that are killed, or stop, cost nobody else anything."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock import Flow
from penstock.errors import DeviceError
from penstock.host.device.base import Task
from penstock.host.devices.remote.client import server_session as client_session
from penstock.host.devices.remote.client.device import RemoteDevice
from penstock.host.devices.remote.server.limits import ServerLimits
from penstock.host.devices.remote.server.service import DeviceServer, Reason
from tests.host.kit.faulty import FaultyDevice
from tests.host.kit.serving import HANGING_SERVER, SERVER, serving, socket_address, until
from tests.host.kit.streams import SCHEMA, batch_of
from tests.host.kit.tasks import band_join, expected, load, run_to_end, sorted_pairs
from tests.penstock.kit.devices import InterpretingCpu

ROOT = Path(__file__).parents[5]
pytestmark = pytest.mark.usefixtures("transport")

TIMEOUT_S = 30
JOIN = band_join(np.random.default_rng(4), 1, 32, 20, 90, "random")
TASK = Task(JOIN.stream, JOIN.start, JOIN.end, 10_000)

#: A client that has a window, submits tasks, and says how they ended.
CLIENT = """
import sys
import numpy as np
from penstock.errors import DeviceError
from penstock.host.device.base import Task
from penstock.host.devices.remote.client.device import RemoteDevice
from tests.host.kit.tasks import band_join, load

join = band_join(np.random.default_rng(4), 1, 32, 20, 90, "random")
device = RemoteDevice(sys.argv[1], answer_s=30.0, transport=sys.argv[2])
kernel = device.open(join.program)
windows = [load(kernel, join) for _ in range(3)]
task = Task(join.stream, join.start, join.end, 10_000)
futures = [kernel.submit(window, task) for window in windows]
print("submitted", flush=True)
for future in futures:
    try:
        print(len(future.result(30).i), flush=True)
    except DeviceError as error:
        print(error, flush=True)
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a program of Python; none outlives the test."""
    started: list[subprocess.Popen[str]] = []

    def begin(code: str, *args: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", code, *args]
        started.append(subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield begin
    for one in started:
        one.kill()
        one.communicate(timeout=TIMEOUT_S)


def said(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline().strip() == line


def works(device: RemoteDevice) -> None:
    kernel = device.open(JOIN.program)
    buffer = load(kernel, JOIN)
    results = run_to_end(kernel, buffer, JOIN, 10_000)
    np.testing.assert_array_equal(sorted_pairs(results), expected(JOIN))
    buffer.free()
    kernel.close()


def connected(server: DeviceServer, **options: float) -> RemoteDevice:
    return RemoteDevice(str(server.address), answer_s=TIMEOUT_S, **options)  # type: ignore


# -- clients --------------------------------------------------------------------------------------


def test_a_client_that_is_killed_in_its_tasks(
    faulty: FaultyDevice, start: Start, transport: str
) -> None:
    """Its windows and kernels are freed when its tasks are over; another client goes on."""
    faulty.lanes = 1
    with serving({"cpu": faulty}) as server, connected(server) as other:
        owner = server.owners["cpu"]
        kernel = other.open(JOIN.program)
        own = load(kernel, JOIN)
        before = faulty.rows, owner.held()
        faulty.fate = lambda: "hang"
        client = start(CLIENT, str(server.address), transport)
        said(client, "submitted")
        # Two of its tasks run on the device, the third waits for its turn.
        until(lambda: owner.load() == (1, 2))
        faulty.fate = lambda: "ok"
        client.kill()
        # What waited is dropped; what runs keeps its windows, which the device still reads.
        faulty.wait_for(lambda: faulty.rows == before[0] + 2 * len(JOIN.window[0]))
        assert owner.load() == (0, 2)
        faulty.release()
        faulty.wait_for(lambda: faulty.rows == before[0])
        until(lambda: owner.held() == before[1])
        until(lambda: len(server.sessions()) == 1)
        until(lambda: server.ended == {Reason.LEFT: 1})
        result = kernel.submit(own, TASK).result(TIMEOUT_S)
        assert len(result.i) == len(expected(JOIN))
        works(other)


@pytest.mark.slow
def test_a_client_that_stops_loses_its_lease(faulty: FaultyDevice, start: Start) -> None:
    """Its connection is alive, and it is not: others get its memory, and it is told later."""
    faulty.fate = lambda: "hang"
    with serving({"cpu": faulty}, ServerLimits(lease_s=1.0)) as server, connected(server) as other:
        client = start(CLIENT, str(server.address), "auto")
        said(client, "submitted")
        faulty.wait_for(lambda: len(faulty.held) == 3)
        faulty.fate = lambda: "ok"
        client.send_signal(signal.SIGSTOP)
        until(lambda: server.ended == {Reason.LEASE: 1})
        faulty.release()
        faulty.wait_for(lambda: faulty.rows == 0)
        works(other)
        client.send_signal(signal.SIGCONT)
        out, _ = client.communicate(timeout=TIMEOUT_S)
        assert out.count("no sign of life") + out.count(str(len(expected(JOIN)))) >= 3


def test_without_signs_of_life_a_session_ends(
    faulty: FaultyDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_session, "_BEATS_PER_LEASE", 0.001)
    with serving({"cpu": faulty}, ServerLimits(lease_s=2.0)) as server:
        device = connected(server)
        window = device.open(JOIN.program).allocate(10)
        (session,) = server.sessions()
        session.seen -= 100  # as if all of this had taken so long
        faulty.wait_for(lambda: faulty.rows == 0)
        until(lambda: server.ended == {Reason.LEASE: 1})
        with pytest.raises(DeviceError, match="no sign of life for the length of its lease"):
            window.write(0, [JOIN.window[0][:10]])
        assert window.lost
        device.close()


def test_a_client_that_leaves_its_things_behind(faulty: FaultyDevice) -> None:
    with serving({"cpu": faulty}) as server:
        with connected(server) as device:
            load(device.open(JOIN.program), JOIN)
            assert faulty.rows
        faulty.wait_for(lambda: faulty.rows == 0)
        until(lambda: server.owners["cpu"].held() == {})


# -- servers --------------------------------------------------------------------------------------


def ended(futures: list[Future]) -> str:
    (message,) = {str(future.exception(TIMEOUT_S)) for future in futures}
    return message


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.slow)]
)
def test_a_server_that_dies_or_hangs_in_a_task(start: Start, number: signal.Signals) -> None:
    """All calls fail with one clear message; without a server so do later ones, soon."""
    with socket_address() as address:
        server = start(HANGING_SERVER, address)
        said(server, "serving")
        device = RemoteDevice(address, resume_s=0.3, connect_s=3.0)
        kernel = device.open(JOIN.program)
        window = load(kernel, JOIN)
        futures = [kernel.submit(window, TASK) for _ in range(3)]
        said(server, "running")
        server.send_signal(number)
        message = ended(futures)
        assert f"the session with the server at {address} ended" in message
        assert f"penstock serve --listen {address}" in message
        assert window.lost
        with pytest.raises(DeviceError, match=r"no server answers at|did not answer within 3 s"):
            kernel.allocate(5)
        window.free()
        kernel.close()
        server.kill()
        server.wait(TIMEOUT_S)
        # Another one on the same socket, which the first could not remove.
        with serving({"cpu": InterpretingCpu(2)}, address=address):
            with pytest.raises(DeviceError, match="ended"):
                kernel.submit(window, TASK).result(TIMEOUT_S)
            again = load(kernel, JOIN)
            assert len(kernel.submit(again, TASK).result(TIMEOUT_S).i) == len(expected(JOIN))
            works(device)
            device.close()


def test_a_server_that_is_stopped_tells_its_clients() -> None:
    with serving({"cpu": InterpretingCpu(2)}) as server:
        device = connected(server, resume_s=0.1)
        works(device)
        assert server.close()
        # The client may learn it from the server's last message, or when it connects again.
        with pytest.raises(DeviceError, match=r"no server answers at|the server was stopped"):
            device.open(JOIN.program)
        device.close()


def test_a_running_join_outlives_its_server(start: Start) -> None:
    """Windows that died with a server are written to the next one, from the join's own memory."""
    rng = Random(7)
    rows = {
        name: [(k, k // 3, rng.randint(0, 3)) for k in range(600)] for name in ("orders", "gps")
    }
    schemas = dict.fromkeys(rows, SCHEMA)
    query = "SELECT o.n AS a, g.n AS b FROM orders o JOIN gps g ON o.x * g.x < 3"
    options = {"time": {"o": "t", "g": "t"}, "within": 20}

    def pushed(stream: penstock.RunningQuery, low: int, high: int) -> None:
        for at in range(low, high, 50):
            for name, own in rows.items():
                stream.push(name, batch_of(own[at : at + 50]))

    def found(tables: list[pa.Table]) -> list[tuple]:
        table = pa.concat_tables(tables)
        return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))

    with InterpretingCpu(2) as cpu:
        stream = penstock.stream(query, schemas, device=cpu, **options)  # type: ignore[arg-type]
        pushed(stream, 0, 600)
        wanted = found([stream.poll(), stream.close()])
    assert wanted

    with socket_address() as address:
        first = start(SERVER, address)
        said(first, "serving")
        device = RemoteDevice(address, resume_s=TIMEOUT_S)
        flow = Flow(latency_s=0.0)
        stream = penstock.stream(query, schemas, device=device, flow=flow, **options)  # type: ignore
        pushed(stream, 0, 300)
        first.kill()
        first.wait(TIMEOUT_S)
        # The next batch waits for the server that is started beside it.
        late = threading.Thread(target=lambda: said(start(SERVER, address), "serving"))
        late.start()
        pushed(stream, 300, 600)
        got = found([stream.poll(), stream.close()])
        late.join(TIMEOUT_S)
        assert got == wanted
        device.close()
