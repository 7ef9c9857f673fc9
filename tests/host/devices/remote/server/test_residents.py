"""Windows that a server keeps by name: who writes them, who waits, and when they go."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from penstock.errors import DeviceError
from penstock.host.device.base import Task, WindowName
from penstock.host.devices.remote.client.device import RemoteDevice
from penstock.host.devices.remote.server.limits import ServerLimits
from penstock.host.devices.remote.server.metrics import ServerCollector
from penstock.host.devices.remote.server.residents import Gone
from penstock.host.devices.remote.server.service import DeviceServer
from penstock.program import WindowProgram
from tests.host.kit.faulty import FaultyDevice
from tests.host.kit.serving import serving, until
from tests.host.kit.tasks import band_join, expected

pytestmark = pytest.mark.usefixtures("transport")

JOIN = band_join(np.random.default_rng(4), 1, 32, 20, 90, "random")
TASK = Task(JOIN.stream, JOIN.start, JOIN.end, 10_000)
ROWS = len(JOIN.window[0])
NAME = WindowName("query", "block", "content")


def connected(server: DeviceServer) -> RemoteDevice:
    return RemoteDevice(str(server.address), answer_s=30.0)


def used(device: RemoteDevice, name: WindowName = NAME) -> int:
    """Read a window by name, loading it where it is not there; how many pairs it gives."""
    kernel = device.open(JOIN.program)
    window = kernel.resident(name, ROWS, lambda: JOIN.window)
    assert window is not None
    found = len(kernel.submit(window, TASK).result(30).i)
    window.free()
    kernel.close()
    return found


def test_a_window_outlives_the_client_that_wrote_it(server: DeviceServer) -> None:
    owner = server.owners["cpu"]
    for _ in range(3):
        with connected(server) as device:
            assert used(device) == len(expected(JOIN))
    assert owner.counters["window_rows"] == ROWS
    assert owner.residents.counts == {"hits": 2, "loads": 1}
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in ServerCollector(server).collect()
        for sample in family.samples
    }
    assert samples["penstock_server_window_rows_total", "cpu"] == ROWS
    assert samples["penstock_server_resident_windows", "cpu"] == 1
    assert samples["penstock_server_resident_asked_total", "cpu", "hits"] == 2
    assert samples["penstock_server_resident_gone_total", "cpu", "idle"] == 0


def test_several_clients_at_once_write_it_once(server: DeviceServer) -> None:
    def act(_: int) -> int:
        with connected(server) as device:
            return used(device)

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(act, range(4))) == [len(expected(JOIN))] * 4
    assert server.owners["cpu"].counters["window_rows"] == ROWS


def test_a_client_that_dies_while_it_writes(server: DeviceServer) -> None:
    """Whoever waits for the window writes it."""
    residents = server.owners["cpu"].residents
    first = connected(server)
    kernel = first.open(JOIN.program)
    link, number = kernel.on_server()
    asked = {"call": "resident", "kernel": number, "capacity": ROWS, **vars(NAME)}
    answer, _ = link.call(asked)
    assert answer["loaded"] is False
    with ThreadPoolExecutor(1) as threads, connected(server) as second:
        waiting = threads.submit(used, second)
        until(lambda: len(server.sessions()) == 2)
        first.close()
        assert waiting.result(30) == len(expected(JOIN))
    assert residents.dropped[Gone.UNWRITTEN] == 1
    assert residents.counts["loads"] == 2


def test_a_window_is_written_once(server: DeviceServer) -> None:
    with connected(server) as device:
        kernel = device.open(JOIN.program)
        window = kernel.resident(NAME, ROWS, lambda: JOIN.window)
        with pytest.raises(DeviceError, match="written once"):
            window.write(0, JOIN.window)
        window.free()

        def broken() -> list:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            kernel.resident(WindowName("query", "other", "content"), ROWS, broken)
        assert server.owners["cpu"].residents.dropped == {Gone.UNWRITTEN: 1}
        plain = kernel.allocate(5)
        with pytest.raises(DeviceError, match="without a name"):
            device.session().call({"call": "loaded", "window": plain.number})


def test_idle_windows_go_after_a_while(server: DeviceServer, faulty: FaultyDevice) -> None:
    residents = server.owners["cpu"].residents
    with connected(server) as device:
        used(device)
        kernel = device.open(JOIN.program)
        held = kernel.resident(WindowName("query", "held", "content"), ROWS, lambda: JOIN.window)
        residents.expire(time.monotonic())
        assert residents.dropped == {Gone.IDLE: 1}
        assert faulty.rows == ROWS  # what is read stays
        device.keep_windows("query", [])
        assert residents.held() == (0, 0)
        assert len(kernel.submit(held, TASK).result(30).i) == len(expected(JOIN))
        held.free()
    faulty.wait_for(lambda: faulty.rows == 0)
    assert server.owners["cpu"].held() == {}


def test_idle_windows_make_way(faulty: FaultyDevice) -> None:
    """For windows without a name, and where the device itself has no room."""
    with serving({"cpu": faulty}, ServerLimits(memory_bytes=8 * ROWS)) as server:
        residents = server.owners["cpu"].residents
        with connected(server) as device:
            used(device)
            kernel = device.open(JOIN.program)
            faulty.most_rows = ROWS + 10
            kernel.allocate(20).free()
            assert residents.dropped == {Gone.MEMORY: 1}
            used(device)
            with pytest.raises(DeviceError, match="no room"):
                kernel.allocate(3 * ROWS)
            used(device)
    assert faulty.rows == 0


def test_windows_of_another_program_or_content_are_others(server: DeviceServer) -> None:
    with connected(server) as device:
        for content in ("content", "other"):
            used(device, WindowName("query", "block", content))
    assert server.owners["cpu"].residents.counts == {"hits": 0, "loads": 2}


@pytest.mark.parametrize("missing", ["scope", "block", "content", "capacity"])
def test_names_are_complete(server: DeviceServer, missing: str) -> None:
    with connected(server) as device:
        link, number = device.open(JOIN.program).on_server()
        asked = {"call": "resident", "kernel": number, "capacity": ROWS, **vars(NAME)}
        del asked[missing]
        with pytest.raises(DeviceError, match=f"needs {missing}"):
            link.call(json.loads(json.dumps(asked)))


@pytest.mark.parametrize("call", ["resident", "allocate"])
def test_a_window_join_has_no_windows(server: DeviceServer, call: str) -> None:
    """It is refused at once: nothing is waited for, and no window makes way."""
    part = JOIN.program
    with connected(server) as device, connected(server) as other:
        used(other, WindowName("query", "idle", "content"))
        kernel = other.open(part)
        held = kernel.resident(NAME, ROWS, lambda: JOIN.window)
        link, number = device.open(WindowProgram(part, part, (2, 2))).on_server()
        asked = {"call": call, "kernel": number, "capacity": ROWS}
        asked |= vars(NAME) if call == "resident" else {}
        with pytest.raises(DeviceError, match="tasks of a window join bring their windows"):
            link.call(asked)
        assert server.owners["cpu"].residents.dropped[Gone.MEMORY] == 0
        assert held is not None
        held.free()
