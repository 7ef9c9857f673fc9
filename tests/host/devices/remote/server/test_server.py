"""What a server lets clients do, and what it tells them."""

from __future__ import annotations

import json
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.flight as flight
import pytest

import penstock
from penstock.errors import DeviceError, OverloadError, UsageError
from penstock.host.device.base import Task
from penstock.host.devices.narrow.kernel import NARROW_WIDTHS
from penstock.host.devices.remote.client.device import TRANSPORTS, RemoteDevice
from penstock.host.devices.remote.server.limits import ServerLimits
from penstock.host.devices.remote.server.service import DeviceServer
from penstock.host.devices.remote.wire.rings import Rings
from penstock.host.wire.message import PROTOCOL
from penstock.host.wire.transport import GoneError
from penstock.program import BandProgram, Mode, WindowProgram
from tests.host.kit.banked import Banked
from tests.host.kit.faulty import FaultyDevice
from tests.host.kit.frames import calling, exchanged, go_over, raw
from tests.host.kit.narrow_device import NarrowDevice
from tests.host.kit.serving import serving, socket_address, until
from tests.host.kit.tasks import band_join, expected, load, run_to_end, sorted_pairs
from tests.penstock.kit.devices import InterpretingCpu

pytestmark = pytest.mark.usefixtures("transport")

TIMEOUT_S = 30
TOKEN = "0123456789abcdef0123456789abcdef"
JOIN = band_join(np.random.default_rng(4), 1, 32, 20, 90, "random")
TASK = Task(JOIN.stream, JOIN.start, JOIN.end, 10_000)


def connected(server: DeviceServer, **options: object) -> RemoteDevice:
    return RemoteDevice(str(server.address), answer_s=TIMEOUT_S, **options)  # type: ignore


def works(device: RemoteDevice) -> None:
    """Run a join on it and compare."""
    kernel = device.open(JOIN.program)
    buffer = load(kernel, JOIN)
    results = run_to_end(kernel, buffer, JOIN, 10_000)
    np.testing.assert_array_equal(sorted_pairs(results), expected(JOIN))
    buffer.free()
    kernel.close()


# -- who may connect ------------------------------------------------------------------------------


def token_file(folder: Path, text: str) -> Path:
    file = folder / text
    file.write_text(text)
    file.chmod(0o600)
    return file


@pytest.mark.parametrize("where", ["unix", "tcp://127.0.0.1:0"])
def test_only_who_shows_the_token_comes_in(
    faulty: FaultyDevice, tmp_path: Path, where: str
) -> None:
    address = None if where == "unix" else where
    with serving({"cpu": faulty}, address=address, token=TOKEN) as server:
        with pytest.raises(DeviceError, match=r"wants a token.*--token-file"):
            connected(server)
        with pytest.raises(DeviceError, match="missing or wrong"):
            connected(server, token_file=token_file(tmp_path, TOKEN[::-1]))
        with connected(server, token_file=token_file(tmp_path, TOKEN)) as device:
            works(device)


def test_calls_need_the_token_too(faulty: FaultyDevice, tmp_path: Path) -> None:
    """Each connection proves that it knows it, whatever session it names."""
    with (
        serving({"cpu": faulty}, token=TOKEN) as server,
        connected(server, token_file=token_file(tmp_path, TOKEN)) as device,
    ):
        wants = {"stream": "calls", "session": device.session().key, "proof": "0" * 64}
        with raw(server.address) as (frames, _):
            hello = {"protocol": PROTOCOL, "version": "0", "nonce": "0" * 64}
            exchanged(frames, json.dumps(hello).encode())
            answer = exchanged(frames, json.dumps(wants).encode())
        assert "the token is missing or wrong" in answer["error"]["message"]
        works(device)


def test_only_the_server_s_user_may_open_its_socket(server: DeviceServer) -> None:
    path = server.address.path
    assert path is not None
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_network_address_without_a_token_is_refused(faulty: FaultyDevice) -> None:
    with (
        pytest.raises(UsageError, match="without a token"),
        serving({"cpu": faulty}, address="tcp://0.0.0.0:0"),
    ):
        pass


def test_an_address_that_is_taken(server: DeviceServer, faulty: FaultyDevice) -> None:
    with (
        pytest.raises(UsageError, match="already"),
        serving({"cpu": faulty}, address=str(server.address)),
    ):
        pass
    with connected(server) as device:
        works(device)


# -- who answers ----------------------------------------------------------------------------------


def test_nobody_answers() -> None:
    with (
        socket_address() as address,
        pytest.raises(DeviceError, match=f"no server answers at {address}.*penstock serve"),
    ):
        RemoteDevice(address)
    with pytest.raises(UsageError, match="needs the address"):
        RemoteDevice()


def test_somebody_else_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other, ThreadPoolExecutor(1) as threads:

        def answer() -> None:
            accepted, _ = other.accept()
            with accepted:
                accepted.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                accepted.recv(1 << 16)

        threads.submit(answer)
        with pytest.raises(DeviceError, match="is no server of Penstock"):
            RemoteDevice(f"tcp://127.0.0.1:{other.getsockname()[1]}")
    # As servers of protocol 2 and below.
    with (
        flight.FlightServerBase("grpc://127.0.0.1:0") as old,
        pytest.raises(DeviceError, match=r"up to protocol 2; this client speaks protocol 7 \(pens"),
    ):
        RemoteDevice(f"tcp://127.0.0.1:{old.port}")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(DeviceError, match=r"did not answer within 0.3 s|no server answers"):
            RemoteDevice(f"tcp://127.0.0.1:{port}", connect_s=0.3)


def test_another_protocol(server: DeviceServer) -> None:
    """Both sides say which versions they are."""
    wanted = r"speaks protocol 7 .* this client 99 \(penstock '0.0'\); .* same version"
    with raw(server.address) as (frames, _):
        answer = exchanged(frames, b'{"protocol": 99, "version": "0.0"}')
        assert re.search(wanted, answer["error"]["message"])


def test_a_device_of_the_server(faulty: FaultyDevice) -> None:
    with serving({"cpu": faulty, "slow": InterpretingCpu(1)}) as server:
        with connected(server) as first, connected(server, device="slow") as second:
            assert (first.lanes, second.lanes) == (2, 1)
            assert [one["name"] for one in second.served] == ["cpu", "slow"]
        with pytest.raises(DeviceError, match="no device 'gpu'; it has cpu, slow"):
            connected(server, device="gpu")


# -- what a client may take -----------------------------------------------------------------------


def test_memory_of_a_client_and_of_all(faulty: FaultyDevice) -> None:
    limits = ServerLimits(memory_bytes=1000 * 4, client_memory_bytes=600 * 4)
    with serving({"cpu": faulty}, limits) as server:
        with connected(server) as one, connected(server) as two:
            first, second = one.open(JOIN.program), two.open(JOIN.program)
            held = first.allocate(500)
            with pytest.raises(DeviceError, match="this client has 2000 of 2400 bytes"):
                first.allocate(101)
            second.allocate(450)
            with pytest.raises(DeviceError, match="its clients have 3800 of 4000 bytes"):
                second.allocate(100)
            held.free()
            second.allocate(100)
        until(lambda: server.owners["cpu"].held() == {})
        assert faulty.rows == 0


def test_a_window_beyond_the_device_is_an_error_and_costs_nothing(faulty: FaultyDevice) -> None:
    faulty.most_rows = 10
    with serving({"cpu": faulty}) as server, connected(server) as device:
        with pytest.raises(DeviceError, match="no room for 11 rows"):
            device.open(JOIN.program).allocate(11)
        until(lambda: server.owners["cpu"].held() == {})


def test_windows_of_a_server_with_small_banks() -> None:
    """A client knows how long a window may be, as if the device were its own."""
    banked = Banked(InterpretingCpu(1), [300, 300], 100)
    with serving({"cpu": banked}) as server, connected(server) as device:
        kernel = device.open(JOIN.program)
        assert kernel.most_positions == 100
        kernel.allocate(100).free()
        with pytest.raises(DeviceError, match="101 positions are more than a bank has"):
            kernel.allocate(101)
    with serving({"cpu": InterpretingCpu(1)}) as server, connected(server) as device:
        assert device.open(JOIN.program).most_positions is None


@pytest.mark.parametrize("bits", [5, None])
@pytest.mark.parametrize("kind", ["SEMI", "ANTI"])
def test_whether_rows_match_behind_a_server_of_narrow_units(bits: int | None, kind: str) -> None:
    """Such joins ask for pairs, as on narrow units of this process."""
    rng = np.random.default_rng(5)
    keys = rng.integers(0, 1 << 30, (2, 600))
    at = np.arange(600)
    sides = {
        name: pa.table({"id": at, "t": at, "x": own}) for name, own in zip("rs", keys, strict=True)
    }
    text = f"""SELECT r.id AS id FROM r {kind} JOIN s ON s.t BETWEEN r.t - 90 AND r.t + 90
        AND s.x BETWEEN r.x - 9999999 AND r.x + 9999999"""
    local = InterpretingCpu(1)
    with serving({"cpu": NarrowDevice(local, bits)}) as server, connected(server) as device:
        assert device.narrow_widths == (NARROW_WIDTHS if bits is None else (5,))
        assert (device.refuses(BandProgram(1, 0b10), frozenset({Mode.EXISTS})) is None) != (
            bits == 5
        )
        ways = (device, server.owners["cpu"].device, local)
        found, narrow, wanted = (
            penstock.sql(text, sides, time={"r": "t", "s": "t"}, device=way).sort_by("id")
            for way in ways
        )
        assert 0 < len(wanted) < 600
        assert found == narrow == wanted
        assert ("false_pairs" in server.owners["cpu"].device.counters()) == (bits == 5)


def test_units_that_a_program_asks_for_behind_a_server() -> None:
    """The width that a client's planner chose reaches the device."""
    narrow = NarrowDevice(InterpretingCpu(1), None)
    with serving({"cpu": narrow}) as server, connected(server) as device:
        kernel = device.open(replace(JOIN.program, unit_bits=16))
        result = load(kernel, JOIN).run(TASK)
        assert result.counters["narrow_bits"] == 16
        assert len(result.i) == len(expected(JOIN))


def test_too_many_clients(faulty: FaultyDevice) -> None:
    with serving({"cpu": faulty}, ServerLimits(clients=1)) as server:
        with connected(server), pytest.raises(OverloadError, match="has 1 clients"):
            connected(server)
        with connected(server) as device:
            works(device)


def test_too_many_tasks_of_a_client(faulty: FaultyDevice) -> None:
    """Beyond the depth a client is told; what it submitted before goes on."""
    faulty.lanes = 1
    faulty.fate = lambda: "hang"
    with serving({"cpu": faulty}, ServerLimits(depth=1)) as server, connected(server) as device:
        window = load(device.open(JOIN.program), JOIN)
        with ThreadPoolExecutor(4) as threads:
            running = [threads.submit(window.run, TASK) for _ in range(2)]
            faulty.wait_for(lambda: len(faulty.held) == 2)
            more = [threads.submit(window.run, TASK) for _ in range(2)]
            refused = next(iter(f for f in _done(more)))
            with pytest.raises(OverloadError, match="1 tasks of this client wait"):
                refused.result(TIMEOUT_S)
            faulty.fate = lambda: "ok"
            faulty.release()
            (last,) = (f for f in more if f is not refused)
            for future in (*running, last):
                assert len(future.result(TIMEOUT_S).i) == len(expected(JOIN))


def _done(futures: list) -> list:
    from concurrent.futures import FIRST_COMPLETED, wait

    return list(wait(futures, TIMEOUT_S, return_when=FIRST_COMPLETED).done)


def test_clients_take_turns(faulty: FaultyDevice) -> None:
    """A client with one task waits for one task of the client that has many, not for all."""
    faulty.lanes = 1
    faulty.fate = lambda: "hang"
    with (
        serving({"cpu": faulty}, ServerLimits(depth=8)) as server,
        connected(server) as busy,
        connected(server) as other,
    ):
        many, one = (load(d.open(JOIN.program), JOIN) for d in (busy, other))
        owner = server.owners["cpu"]
        with ThreadPoolExecutor(8) as threads:
            before = [threads.submit(many.run, TASK) for _ in range(6)]
            until(lambda: owner.load() == (4, 2))
            late = threads.submit(one.run, TASK)
            until(lambda: owner.load() == (5, 2))
            try:
                # The two tasks on the device, then one of each client.
                for _ in range(2):
                    faulty.wait_for(lambda: len(faulty.held) == 2)
                    faulty.release()
                assert late.exception(TIMEOUT_S) is None
                faulty.wait_for(lambda: len(faulty.held) == 2)
            finally:
                faulty.fate = lambda: "ok"
                faulty.release()
            assert [f.exception(TIMEOUT_S) for f in before] == [None] * 6


def test_a_result_larger_than_the_server_s_room_pauses(faulty: FaultyDevice) -> None:
    every = BandProgram(1, 0b11, 32)
    join = band_join(np.random.default_rng(1), 1, 32, 20, 90, "full")
    join = type(join)(every, join.window, join.stream, join.start, join.end)
    with serving({"cpu": faulty}, ServerLimits(room=100)) as server, connected(server) as device:
        kernel = device.open(every)
        results = run_to_end(kernel, load(kernel, join), join, 10_000)
        assert len(results) > 10
        np.testing.assert_array_equal(sorted_pairs(results), expected(join))


def test_without_shared_memory_data_goes_through_the_socket(
    server: DeviceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the client is in another container; it is an error only to who insists."""

    def elsewhere(*_: object) -> None:
        raise DeviceError("the client's memory cannot be shared (No such file or directory)")

    monkeypatch.setattr(Rings, "open", elsewhere)
    monkeypatch.setitem(TRANSPORTS, "auto", None)
    with connected(server) as device:
        works(device)
        assert device.session().channel is False
    with (
        connected(server, transport="channel") as device,
        pytest.raises(DeviceError, match="cannot be shared"),
    ):
        works(device)


def test_where_no_memory_can_be_sealed_data_goes_through_the_socket(
    server: DeviceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.host.devices.remote.wire.rings.can_seal", lambda: False)
    monkeypatch.delattr("os.memfd_create")
    monkeypatch.setitem(TRANSPORTS, "auto", None)
    with connected(server) as device:
        works(device)
        assert device.session().channel is False
    with (
        connected(server, transport="channel") as device,
        pytest.raises(DeviceError, match="need Linux"),
    ):
        works(device)


# -- errors ---------------------------------------------------------------------------------------


def test_a_task_that_fails_there_fails_here_with_its_message(
    faulty: FaultyDevice, server: DeviceServer
) -> None:
    """And with nothing else: no traceback, no path of the server."""
    with connected(server) as device:
        kernel = device.open(JOIN.program)
        window = load(kernel, JOIN)
        for fate, message in (("error", "AXI error"), ("refused", "did not take the task")):
            faulty.fate = lambda fate=fate: fate
            with pytest.raises(DeviceError, match=message) as caught:
                kernel.submit(window, TASK).result(TIMEOUT_S)
            assert caught.value.__notes__ == [f"from the server at {server.address}"]
        faulty.fate = lambda: "ok"
        works(device)


def test_what_nobody_expected_is_said_in_the_server_s_log_only(
    faulty: FaultyDevice,
    server: DeviceServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("/secret/place")

    monkeypatch.setattr(faulty, "refuses", broken)
    with connected(server) as device:
        with pytest.raises(DeviceError, match=r"did not expect, incident [0-9a-f]{8}") as caught:
            device.refuses(JOIN.program)
        shown = str(caught.value) + "".join(getattr(caught.value, "__notes__", ()))
        assert "secret" not in shown
        assert "ValueError" not in shown
        assert ".py" not in shown
        (number,) = re.findall("incident ([0-9a-f]{8})", shown)
        assert f"incident {number}" in caplog.text
        assert "/secret/place" in caplog.text
        works(device)


def test_a_bug_of_a_device_is_told_and_costs_nobody_else(
    faulty: FaultyDevice, server: DeviceServer, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> str:
        raise ZeroDivisionError("bug")

    with connected(server) as device:
        kernel = device.open(JOIN.program)
        window = load(kernel, JOIN)
        faulty.fate = broken
        with pytest.raises(DeviceError, match=r"failed: .* incident \w+; its log has more"):
            kernel.submit(window, TASK).result(TIMEOUT_S)
        # Not in the text of the log, whose form PySpark changes for the whole process.
        raised = [record.exc_info[1] for record in caplog.records if record.exc_info]
        assert "ZeroDivisionError('bug')" in map(repr, raised)
        faulty.fate = lambda: "ok"
        works(device)


@pytest.mark.parametrize("command", [b"", b"{", b"[]", b"{}", b'{"stream": "x"}', b"\xff"])
def test_malformed_streams(server: DeviceServer, command: bytes) -> None:
    with raw(server.address) as (frames, _):
        hello = {"protocol": PROTOCOL, "version": "0", "nonce": "0" * 64}
        exchanged(frames, json.dumps(hello).encode())
        assert "error" in exchanged(frames, command)
        with pytest.raises(GoneError):
            frames.receive()
    with connected(server) as device:
        works(device)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (b"{", "not JSON"),
        (b"7", "no JSON object"),
        (b"{}", "needs call as str"),
        (b'{"call": "fly"}', "no call 'fly'"),
        (b'{"call": "end"}', "no call 'end'"),
        (b'{"call": "open", "program": {}, "modes": []}', "band or general"),
        (b'{"call": "open", "program": [], "modes": []}', "is an object"),
        (b'{"call": "refuses", "program": {"form": "band"}}', "needs tests as int"),
        (b'{"call": "allocate", "kernel": 1}', "kernel 1 was closed, or never was"),
        (b'{"call": "allocate", "kernel": true}', "needs kernel as int"),
        (b'{"call": "write", "window": 9, "offset": 0}', "window 9 was freed, or never was"),
        (b'{"call": "task", "window": 9}', "window 9 was freed, or never was"),
        (b'{"call": "task", "kernel": 9}', "kernel 9 was closed, or never was"),
        (b'{"call": "task"}', "needs kernel as int"),
        (b'{"call": "task", "body": 5}', "described by rows and kinds"),
        (b'{"call": "task", "body": {"rows": 1, "kinds": ["i8"]}}', "came as 0 bytes"),
        (b'{"call": "refuses", "program": {"form": "window", "rows": [1]}}', "no two integers"),
        (b'{"call": "refuses", "program": {"form": "window", "rows": [1, "2"]}}', "no two integ"),
        (b'{"call": "refuses", "program": {"form": "window", "rows": [1, 2]}}', "is an object"),
        (b'{"call": "free", "window": 1}', "window 1 was freed before, or never was"),
    ],
)
def test_malformed_calls(server: DeviceServer, call: bytes, message: str) -> None:
    """They are refused one by one, and the stream goes on."""
    with connected(server) as device:
        with calling(server.address, device.session().key) as frames:
            first, again = exchanged(frames, call), exchanged(frames, call)
        assert message in first["error"]["message"]
        assert first["error"]["kind"] == again["error"]["kind"] == "DeviceError"
        works(device)


@pytest.mark.parametrize(
    ("rings", "message"),
    [
        (5, "rings are given by"),
        ({"process": 1}, "needs file as int"),
        ({"process": "1", "file": 0}, "needs process as int"),
        ({"process": 1, "file": 0}, "shared"),
        ({"process": 1 << 70, "file": -1}, "shared"),
    ],
)
def test_malformed_offers_of_channels(server: DeviceServer, rings: object, message: str) -> None:
    with connected(server) as device:
        key = device.session().key
        with raw(server.address, {"stream": "calls", "session": key}) as (frames, _):
            call = json.dumps({"call": "channel", "rings": rings}).encode()
            assert message in exchanged(frames, call)["error"]["message"]
            # The connection goes on, and may still have a channel, but no second one.
            made = go_over(frames, key)
            second = {"call": "channel", "rings": made.header()}
            answer = exchanged(frames, json.dumps(second).encode())
            assert "has a channel already" in answer["error"]["message"]
        works(device)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"window": "range"}, "begins with two columns"),
        ({"kernel": "range"}, "names the window, or the kernel of a window join"),
        ({"kernel": "join"}, "needs columns as list"),
        ({"kernel": "join", "columns": [0, 0, 0]}, "has sides, and columns of both"),
    ],
)
def test_malformed_tasks(server: DeviceServer, call: dict, message: str) -> None:
    """Of kernels and windows that are there."""
    with connected(server) as device:
        kernel = device.open(JOIN.program)
        join = device.open(WindowProgram(JOIN.program, JOIN.program, (3, 4)))
        numbers = {
            "kernel": {"range": kernel.on_server()[1], "join": join.on_server()[1]},
            "window": {"range": kernel.allocate(5).number},
        }
        header = {"call": "task", **call}
        for kind in ("kernel", "window"):
            if kind in call:
                header[kind] = numbers[kind][call[kind]]
        wants = {"stream": "calls", "session": device.session().key}
        with raw(server.address, wants) as (frames, _):
            answer = exchanged(frames, json.dumps(header).encode())
        assert message in answer["error"]["message"]
        with pytest.raises(DeviceError, match="bring their windows; allocate none"):
            join.allocate(5)
        works(device)


def test_calls_of_a_session_that_is_not_there(server: DeviceServer) -> None:
    """They are told so, and hold no thread."""
    with raw(server.address, {"stream": "calls", "session": "guessed"}) as (frames, answer):
        assert answer == {"over": "it is not known here"}
        with pytest.raises(GoneError):
            frames.receive()
