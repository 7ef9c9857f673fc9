"""Programs of clients are compiled beside the server, in bounded time and in turns."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import DeviceError
from penstock.expr import ops
from penstock.host.devices.cpu import CpuDevice
from penstock.host.devices.remote.client.device import RemoteDevice
from penstock.host.devices.remote.server.compiling import Compiler
from penstock.host.devices.remote.server.limits import ServerLimits
from penstock.host.devices.remote.server.service import DeviceServer
from penstock.kept_code import NotKeptError, only_kept
from penstock.program import GeneralProgram, WindowProgram
from penstock.types import integer
from tests.host.kit.serving import serving, until

TIMEOUT_S = 60


def program(number: int) -> GeneralProgram:
    """A program that needs compilation; each number gives another one."""
    kind = integer(0, (1 << 40) - 1, nullable=False)
    stream, window = ops.key("s", 0, kind), ops.key("w", 0, kind)
    mixed = ops.bit_xor(ops.bit_xor(stream, ops.const(number)), window)
    predicate = ops.lt(mixed, ops.const(1000))
    return GeneralProgram((kind,), (kind,), predicate)


def new_program() -> GeneralProgram:
    """One that nobody has compiled before."""
    return program(int.from_bytes(os.urandom(5), "big"))


def connected(server: DeviceServer) -> RemoteDevice:
    return RemoteDevice(str(server.address), answer_s=TIMEOUT_S)


def test_nothing_is_compiled_in_the_server() -> None:
    wanted = new_program()
    with CpuDevice(1) as cpu, pytest.raises(NotKeptError), only_kept():
        cpu.open(wanted)
    with serving({"cpu": CpuDevice(1)}) as server, connected(server) as device:
        device.open(wanted)
        (shared,) = server.owners["cpu"]._shared.values()
        kernel: Any = shared.kernel
        stats = kernel._modules[None].run.stats
        assert sum(stats.cache_hits.values()) == 1
        assert not sum(stats.cache_misses.values())


def test_what_is_kept_needs_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_process(*_: object) -> None:
        raise AssertionError("a process was started")

    wanted = program(3)
    with CpuDevice(1) as cpu:
        cpu.open(wanted)
    monkeypatch.setattr(Compiler, "_compile", no_process)
    with serving({"cpu": CpuDevice(1)}) as server, connected(server) as device:
        device.open(wanted)
        device.open(WindowProgram(wanted, wanted, (5, 5)))


def test_a_compilation_ends_when_its_time_is_up() -> None:
    """The client is told what to do, and the server goes on."""
    with serving({"cpu": CpuDevice(1)}, ServerLimits(compile_s=0.1)) as server:
        with connected(server) as device:
            for _ in range(2):
                with pytest.raises(
                    DeviceError, match=r"for 0\.1 s, which is the most.*--compile-s"
                ):
                    device.open(new_program())
            wanted = new_program()
            with pytest.raises(DeviceError, match="which is the most"):
                device.open(WindowProgram(wanted, wanted, (5, 5)))
            with CpuDevice(1) as cpu:
                cpu.open(program(3))
            device.open(program(3))
        assert not server.owners["cpu"].compiler._running


def test_a_compilation_ends_with_its_session() -> None:
    with serving({"cpu": CpuDevice(1)}, ServerLimits(compile_s=TIMEOUT_S)) as server:
        compiler = server.owners["cpu"].compiler
        with connected(server) as device, ThreadPoolExecutor(1) as threads:
            opening = threads.submit(device.open, new_program())
            until(lambda: bool(compiler._running))
            device.session().lose("it was cut")
            assert opening.exception(TIMEOUT_S) is not None
        until(lambda: not compiler._running)


def test_what_cannot_be_kept_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(tmp_path / "file"))
    compiler = Compiler(TIMEOUT_S)
    monkeypatch.setattr(compiler, "_compile", lambda *_: None)
    wanted = new_program()
    with CpuDevice(1) as cpu, pytest.raises(DeviceError, match="PENSTOCK_CACHE_DIR set to"):
        compiler.open("a", wanted, frozenset(), lambda: cpu.open(wanted), lambda: None)


class Turns:
    """Threads that compile for clients, each until it is told to end."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self.compiler = Compiler(TIMEOUT_S)
        self.begun: list[str] = []
        self._threads = threads
        self._ends: dict[str, threading.Event] = {}

    def wants(self, name: str) -> None:
        """A compilation of the client that its first letter names."""
        end = self._ends[name] = threading.Event()
        before = len(self.compiler._waiting) + len(self.begun)

        def act() -> None:
            with self.compiler._turn(name[0], lambda: None):
                self.begun.append(name)
                end.wait(TIMEOUT_S)

        self._threads.submit(act)
        until(lambda: len(self.compiler._waiting) + len(self.begun) > before)

    def end(self, name: str) -> None:
        self._ends[name].set()


def test_each_client_compiles_one_program_at_a_time_and_the_next_client_comes_first() -> None:
    with ThreadPoolExecutor(8) as threads:
        turns = Turns(threads)
        for name in ("a1", "a2", "a3"):
            turns.wants(name)
        assert turns.begun == ["a1"]
        # A second place is for others.
        turns.wants("b1")
        until(lambda: turns.begun == ["a1", "b1"])
        turns.wants("c1")
        turns.end("a1")
        # Before the two of the first client that waited longer.
        until(lambda: turns.begun == ["a1", "b1", "c1"])
        turns.end("b1")
        until(lambda: turns.begun == ["a1", "b1", "c1", "a2"])
        turns.end("a2")
        until(lambda: turns.begun[-1] == "a3")
        for name in ("c1", "a3"):
            turns.end(name)
    assert not turns.compiler._latest


def test_who_gives_up_while_others_compile_leaves_no_trace() -> None:
    def gone() -> None:
        raise DeviceError("gone")

    compiler = Compiler(TIMEOUT_S)
    with (
        compiler._turn("a", lambda: None),
        compiler._turn("b", lambda: None),
        pytest.raises(DeviceError, match="gone"),
        compiler._turn("c", gone),
    ):
        pass
    assert not compiler._waiting
    assert not compiler._running
