"""What clients cannot take: each attack costs the server little, and others nothing."""

from __future__ import annotations

import json
import threading
import time

import numpy as np
import pytest

from penstock.errors import DeviceError, OverloadError
from penstock.expr import ops
from penstock.host.channel.ring_memory import ring_bytes
from penstock.host.channel.shm import SLOT_BYTES, SLOTS
from penstock.host.device.base import PAIRS, Task, WindowName
from penstock.host.device.window_join import WindowTask
from penstock.host.devices.remote.client.device import RemoteDevice
from penstock.host.devices.remote.server.limits import Hold, ServerLimits, Traffic
from penstock.host.devices.remote.server.service import DeviceServer
from penstock.host.wire.frames import MAGIC, PREFIX
from penstock.host.wire.message import MOST_BODY_BYTES
from penstock.host.wire.transport import GoneError
from penstock.program import BandProgram, GeneralProgram, Mode
from penstock.types import integer
from tests.host.devices.remote.fuzz.watch import resident_bytes
from tests.host.kit.arrivals import arrivals
from tests.host.kit.faulty import FaultyDevice
from tests.host.kit.frames import calling, exchanged, go_over, put, raw
from tests.host.kit.serving import serving, until
from tests.host.kit.tasks import band_join, expected, load

pytestmark = pytest.mark.usefixtures("transport")

TIMEOUT_S = 30.0
JOIN = band_join(np.random.default_rng(4), 1, 32, 20, 90, "random")
TASK = Task(JOIN.stream, JOIN.start, JOIN.end, 10_000)
MIB = 1 << 20


def connected(server: DeviceServer, **options: object) -> RemoteDevice:
    return RemoteDevice(str(server.address), answer_s=TIMEOUT_S, **options)  # type: ignore


def works(device: RemoteDevice) -> None:
    kernel = device.open(JOIN.program)
    window = load(kernel, JOIN)
    assert len(kernel.submit(window, TASK).result(TIMEOUT_S).i) == len(expected(JOIN))
    window.free()
    kernel.close()


# -- messages -------------------------------------------------------------------------------------


def test_a_description_that_does_not_fit_reads_nothing_of_others(
    server: DeviceServer,
) -> None:
    """A false offset once gave another session's window; now sizes follow from the rows."""
    with connected(server) as device, calling(server.address, device.session().key) as frames:
        kernel = device.open(JOIN.program)
        window = kernel.allocate(90)
        for rows in (2, 1 << 16, 1 << 28):
            header = {"call": "write", "window": window.number, "offset": 0}
            header["body"] = {"rows": rows, "kinds": ["u4"]}
            answer = exchanged(frames, json.dumps(header).encode(), bytes(4))
            assert "came as 4 bytes" in answer["error"]["message"]
        works(device)


def test_memory_that_changes_while_it_is_read(server: DeviceServer) -> None:
    """What has come is copied out of the slots before it is looked at."""
    with connected(server, transport="channel") as device:
        kernel = device.open(JOIN.program)
        window = load(kernel, JOIN)
        wants = {"stream": "calls", "session": device.session().key}
        with raw(server.address, wants) as (frames, _):
            rings = go_over(frames, device.session().key)
            # The ring that the server reads is the last part.
            slots = rings.memory[-ring_bytes(SLOTS, SLOT_BYTES) :][-SLOTS * SLOT_BYTES :]
            body = {"rows": 2, "kinds": ["i8", "i8", "u4", "u4"]}
            header = {"call": "task", "window": window.number, "room": 9, "mode": "pairs"}
            text = json.dumps({**header, "body": body}).encode()
            at, over = PREFIX.size + len(text), threading.Event()
            starts = slots.reshape(SLOTS, SLOT_BYTES)[:, at : at + 16]

            def flip() -> None:
                while not over.is_set():
                    # Ranges within the window, and far outside; and the header's text.
                    starts[:] = np.array([1, 1 << 40]).view(np.uint8)
                    slots.reshape(SLOTS, SLOT_BYTES)[:, at - 40] ^= 1
                    starts[:] = np.array([1, 2]).view(np.uint8)

            thread = threading.Thread(target=flip)
            thread.start()
            columns = np.zeros(4 * 64, np.uint8).tobytes()
            outcomes = {"error" in exchanged(frames, text, columns) for _ in range(500)}
            over.set()
            thread.join()
            assert outcomes
        works(device)


@pytest.mark.parametrize("claimed", [MOST_BODY_BYTES, MOST_BODY_BYTES + 1, (1 << 64) - 1])
def test_a_large_claim_allocates_nothing(faulty: FaultyDevice, claimed: int) -> None:
    with (
        serving({"cpu": faulty}, ServerLimits(traffic_bytes=64 * MIB)) as server,
        connected(server) as device,
    ):
        before = resident_bytes()
        with calling(server.address, device.session().key) as frames:
            put(frames, PREFIX.pack(MAGIC, 2, claimed) + b"{}")
            if claimed > MOST_BODY_BYTES:
                answer, _ = frames.receive()
                assert "above the limits" in answer["error"]["message"]
                with pytest.raises(GoneError):
                    frames.receive()
        assert resident_bytes() - before < 16 * MIB
        works(device)


def test_a_message_that_is_too_much_is_read_past(faulty: FaultyDevice) -> None:
    """The client is told, and its next call goes on."""
    with (
        serving({"cpu": faulty}, ServerLimits(traffic_bytes=8 * MIB)) as server,
        connected(server) as device,
    ):
        window = device.open(JOIN.program).allocate(3 * MIB)
        with pytest.raises(OverloadError, match="the server's memory for messages"):
            window.write(0, [np.zeros(3 * MIB // 2, np.uint32)])
        works(device)
        until(lambda: server.traffic.held() == {})


def test_headers_count_as_what_they_become(faulty: FaultyDevice) -> None:
    with (
        serving({"cpu": faulty}, ServerLimits(traffic_bytes=32 * MIB)) as server,
        connected(server) as device,
        calling(server.address, device.session().key) as frames,
    ):
        answer = exchanged(frames, b'{"call": [' + b"[]," * 200_000 + b"0]}")
        assert "memory for messages" in answer["error"]["message"]
        answer = exchanged(frames, b"[" * 100_000)
        assert "not JSON" in answer["error"]["message"]
        works(device)


def test_integers_count_as_what_they_become(faulty: FaultyDevice) -> None:
    """Those of 2,000 bytes do not exist, and those of one byte take fifty."""
    with (
        serving({"cpu": faulty}, ServerLimits(traffic_bytes=32 * MIB)) as server,
        connected(server) as device,
        calling(server.address, device.session().key) as frames,
    ):
        for kind, rows, message in (
            ("int2000", 800, "which no key has"),
            ("int1", MIB, "memory for messages"),
        ):
            header = {"call": "task", "body": {"rows": rows, "kinds": [kind]}}
            answer = exchanged(frames, json.dumps(header).encode(), bytes(rows))
            assert message in answer["error"]["message"]
        wide = integer(-(1 << 80), 1 << 80, nullable=False)
        key = ops.key("w", 0, wide)
        program = GeneralProgram((), (wide,), ops.lt(key, ops.const(0)))
        kernel = device.open(program)
        with pytest.raises(DeviceError, match="no room"):
            # As pointers they would have fitted.
            kernel.allocate(server.limits.client_bytes // 8)


# -- tasks ----------------------------------------------------------------------------------------


def test_rows_beyond_a_task_are_no_reason_for_room(server: DeviceServer) -> None:
    rows = (1 << 40, 1 << 40)
    tuples, program = arrivals(np.random.default_rng(3), 30, tests=1, rows=rows)
    with connected(server) as device:
        kernel = device.open(program)
        task = WindowTask(tuples, 0, 1 << 40)
        before = resident_bytes()
        found = kernel.submit(None, task).result(TIMEOUT_S)
        assert found.pause is None
        assert resident_bytes() - before < 400 * MIB
        kernel.close()


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        ([0, -1], [5, 5], "out of order"),
        ([-1, 0], [5, 5], "span"),
        ([0, 0], [5, 91], "span"),
        ([0, 0], [5, 1 << 62], "span"),
        ([3, 4], [5, 3], "out of order"),
    ],
)
def test_ranges_outside_a_window(
    server: DeviceServer, start: list[int], end: list[int], message: str
) -> None:
    """Refused by the server, whatever device it has."""
    with connected(server) as device:
        window = load(device.open(JOIN.program), JOIN)
        bounds = [np.zeros(2, np.uint32)] * 2
        task = Task(bounds, np.array(start), np.array(end), 10)
        with pytest.raises(DeviceError, match=message):
            window.run(task)


def test_keys_outside_their_bounds(server: DeviceServer) -> None:
    """Devices compute with the width that bounds need."""
    narrow = integer(0, 9, nullable=False)
    s, w = (ops.key(side, 0, narrow) for side in "sw")
    program = GeneralProgram((narrow,), (narrow,), ops.lt(s, w), w)
    with connected(server) as device:
        kernel = device.open(program, PAIRS | {Mode.SUM})
        window = kernel.allocate(3)
        with pytest.raises(DeviceError, match="0 to 9"):
            window.write(0, [np.array([1, 10, 3], np.int8)])
        window.write(0, [np.array([1, 9, 3], np.int8)])
        one = np.zeros(1, np.int64), np.full(1, 3, np.int64)
        with pytest.raises(DeviceError, match="0 to 9"):
            window.run(Task([np.array([-1], np.int8)], *one, 10))
        assert window.run(Task([np.array([2], np.int8)], *one, 10)).j.tolist() == [1, 2]


def test_a_task_that_would_take_hours(faulty: FaultyDevice) -> None:
    with (
        serving({"cpu": faulty}, ServerLimits(evaluations=1000)) as server,
        connected(server) as device,
    ):
        window = load(device.open(BandProgram(1, 0b11, 32)), JOIN)
        rows = np.zeros(12, np.int64)
        task = Task([np.zeros(12, np.uint32)] * 2, rows, rows + 90, 4000)
        with pytest.raises(DeviceError, match="1080 predicate tests"):
            window.run(task)


# -- what a client has ----------------------------------------------------------------------------


def test_kernels_and_windows_of_a_client(faulty: FaultyDevice) -> None:
    limits = ServerLimits(kernels=2, windows=3)
    with serving({"cpu": faulty}, limits) as server, connected(server) as device:
        kernels = [device.open(BandProgram(1, table, 32)) for table in (0b10, 0b11)]
        with pytest.raises(OverloadError, match="2 programs open"):
            device.open(BandProgram(1, 0, 32))
        windows = [kernels[0].allocate(5) for _ in range(3)]
        for act in (
            lambda: kernels[0].allocate(5),
            lambda: kernels[0].resident(WindowName("a", "b", "c"), 5, list),
        ):
            with pytest.raises(OverloadError, match="3 windows"):
                act()
        windows[0].free()
        kernels[0].allocate(5)
        kernels[1].close()
        device.open(BandProgram(1, 0, 32))


def test_scopes_do_not_multiply_a_client_s_memory(faulty: FaultyDevice) -> None:
    limits = ServerLimits(memory_bytes=4000, client_memory_bytes=1000)
    with serving({"cpu": faulty}, limits) as server, connected(server) as device:
        kernel = device.open(JOIN.program)
        keys = [np.zeros(200, np.uint32)]
        first = kernel.resident(WindowName("a", "b", "c"), 200, lambda: keys)
        with pytest.raises(DeviceError, match="1600 bytes of windows that are kept"):
            kernel.resident(WindowName("another", "b", "c"), 200, lambda: keys)
        first.free()
        kernel.resident(WindowName("another", "b", "c"), 200, lambda: keys).free()
        began = time.monotonic()
        with pytest.raises(DeviceError, match="a client has 1000 bytes at most"):
            kernel.resident(WindowName("a", "b", "d"), 300, lambda: keys)
        assert time.monotonic() - began < TIMEOUT_S  # it waits for nobody


def test_a_hold_ends_with_its_call() -> None:
    traffic = Traffic(100, 60)
    with Hold(traffic, "a") as a, Hold(traffic, "b") as b:
        a.more(40)
        a.more(20)
        with pytest.raises(OverloadError, match="60 of 60"):
            a.more(1)
        b.more(40)
        with pytest.raises(OverloadError, match="100 of 100"):
            b.more(1)
        assert traffic.held() == {"a": 60, "b": 40}
    assert traffic.held() == {}
