"""Doorbells: who is woken, by what, and when a wait ends by itself."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from penstock.host.channel import Doorbell, ProcessGoneError, Ringer, spin_seconds
from penstock.host.device.fields import MalformedError


@pytest.fixture
def bell() -> Iterator[Doorbell]:
    bell = Doorbell.create()
    yield bell
    bell.close()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing until its input is closed."""
    with subprocess.Popen(
        [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE
    ) as process:
        yield process
        process.kill()


def ringer_of(bell: Doorbell) -> Ringer:
    return Ringer((os.dup(bell.files[0]), bell.files[1]))


def test_files_that_are_no_doorbell_are_refused(bell: Doorbell):
    file = os.memfd_create("other", os.MFD_ALLOW_SEALING)
    try:
        with pytest.raises(MalformedError, match="not sealed"):
            Ringer((bell.files[0], file))
    finally:
        os.close(file)


def test_a_closed_doorbell_keeps_no_descriptor():
    """Not even while an interrupt's frames refer to it: its mapping has a descriptor, too."""
    before = len(os.listdir("/proc/self/fd"))
    bell = Doorbell.create()
    ringer = ringer_of(bell)
    bell.close()
    ringer.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_is_ready_needs_no_wait(bell: Doorbell):
    assert bell.wait(lambda: True, 0.0)


@pytest.mark.parametrize("timeout_s", [0.0, 0.02])
def test_a_wait_ends_by_itself(bell: Doorbell, timeout_s: float):
    began = time.perf_counter()
    assert not bell.wait(lambda: False, timeout_s)
    assert timeout_s <= time.perf_counter() - began < timeout_s + 30


def test_a_ring_wakes_who_sleeps(bell: Doorbell):
    ringer, asleep, is_set = ringer_of(bell), threading.Event(), []

    def ready() -> bool:
        # The second look is the one after the announcement: from then on, only a ring wakes.
        looks.append(None)
        if len(looks) == 2:
            asleep.set()
        return bool(is_set)

    looks: list[None] = []

    def ring() -> None:
        asleep.wait(10)
        is_set.append(True)
        ringer.ring()

    thread = threading.Thread(target=ring)
    thread.start()
    assert bell.wait(ready, 10, spin_s=0.0)
    thread.join()
    ringer.close()


def test_who_is_awake_is_not_woken(bell: Doorbell):
    ringer = ringer_of(bell)
    ringer.ring()
    with pytest.raises(BlockingIOError):
        os.eventfd_read(bell.files[0])
    ringer.close()


def test_a_ring_for_nothing_does_not_end_a_wait(bell: Doorbell):
    os.eventfd_write(bell.files[0], 1)
    assert not bell.wait(lambda: False, 0.02)


def test_the_end_of_a_process_ends_a_wait(bell: Doorbell, sleeper: subprocess.Popen[bytes]):
    pidfd = os.pidfd_open(sleeper.pid)
    bell.watch(pidfd, "worker 3")
    assert not bell.wait(lambda: False, 0.0)
    sleeper.kill()
    with pytest.raises(ProcessGoneError, match="worker 3 has ended") as caught:
        bell.wait(lambda: False, 10)
    assert caught.value.name == "worker 3"
    # Whoever looks again learns of it again, unless there is something to do.
    assert bell.wait(lambda: True, 10)
    with pytest.raises(ProcessGoneError):
        bell.wait(lambda: False, 10)
    bell.unwatch(pidfd)
    assert not bell.wait(lambda: False, 0.0)
    os.close(pidfd)


def test_a_closed_doorbell_leaves_no_descriptors():
    before = len(os.listdir("/proc/self/fd"))
    bell = Doorbell.create()
    ringer = ringer_of(bell)
    assert len(os.listdir("/proc/self/fd")) > before
    ringer.close()
    bell.close()
    bell.close()
    # Memory that is mapped has a descriptor of its own.
    del bell, ringer
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(("processes", "spins"), [(1, True), (2, True), (3, False)])
def test_who_outnumbers_the_cores_does_not_spin(
    processes: int, spins: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    bell, asked = Doorbell.create(spin_seconds(processes)), []
    try:
        assert not bell.wait(lambda: bool(asked.append(1)), 0.002)
    finally:
        bell.close()
    # Before it sleeps, when it says that it does, and afterwards.
    assert (len(asked) > 5) is spins
