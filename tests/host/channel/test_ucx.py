"""UCX as a provider: the library, and offers; the suite of all providers is elsewhere."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from penstock.errors import DeviceError, MissingToolError, UsageError, VersionError
from penstock.host.channel import Doorbell, MessageKind
from penstock.host.channel.ucx import Network, UcxLink, library, write_messages
from penstock.host.channel.ucx.network import SHARED_MEMORY
from penstock.host.device.fields import MalformedError


@pytest.fixture
def bell() -> Iterator[Doorbell]:
    bell = Doorbell.create()
    yield bell
    bell.close()


@pytest.fixture
def network(bell: Doorbell) -> Iterator[Network]:
    network = Network(bell, transports=SHARED_MEMORY)
    yield network
    network.close()


class Shared:
    """A library with the functions of the real one, but for what a test changes."""

    def __init__(self, *, version: tuple[int, int] = library.MOST, lacks: str = "") -> None:
        self._lacks = lacks
        out = ctypes.POINTER(ctypes.c_uint)

        def get_version(major, minor, release) -> None:
            major[0], minor[0], release[0] = *version, 7

        self._version = ctypes.CFUNCTYPE(None, out, out, out)(get_version)

    def __getitem__(self, symbol: str):
        if symbol == self._lacks:
            raise AttributeError(symbol)
        return self._version if symbol == "ucp_get_version" else (lambda: None)


def test_all_functions_are_there():
    ucx = library.load()
    assert all(ucx.address(symbol.removeprefix("ucp_")) for symbol in library.SYMBOLS)
    assert library.LEAST <= ucx.version[:2] <= library.MOST


@pytest.mark.parametrize("symbol", library.SYMBOLS)
def test_a_function_that_is_missing_is_named(symbol: str):
    with pytest.raises(MissingToolError, match=rf"no function {symbol}: .*\[rdma\]"):
        library.Library(Shared(lacks=symbol))


@pytest.mark.parametrize("version", [(1, 18), (1, 23), (2, 20), (0, 20)])
def test_another_version_is_refused(version: tuple[int, int]):
    found = rf"UCX {version[0]}\.{version[1]}\.7 is loaded.*\[rdma\].* 1\.19 to 1\.22"
    with pytest.raises(VersionError, match=found):
        library.Library(Shared(version=version))


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, bell: Doorbell):
    monkeypatch.setattr(library, "_loaded", [])
    monkeypatch.setattr(library, "_NAME", "none has been loaded before")
    monkeypatch.setitem(sys.modules, "libucx", None)
    with pytest.raises(MissingToolError, match=r"need UCX.*\[rdma\]"):
        Network(bell)


def test_transports_that_are_none_are_refused(bell: Doorbell, capfd: pytest.CaptureFixture[str]):
    with pytest.raises(DeviceError, match="UCX_TLS"):
        Network(bell, transports="no such")
    assert "no such" in capfd.readouterr().out


def test_rings_have_sizes(network: Network, bell: Doorbell):
    with pytest.raises(UsageError, match="1 to 65536 slots"):
        UcxLink(network, bell, "b", slots=0)
    with pytest.raises(UsageError, match="multiple of 64"):
        UcxLink(network, bell, "b", slot_bytes=100)


def test_what_is_no_offer_is_refused(network: Network, bell: Doorbell):
    link, other = (UcxLink(network, bell, name) for name in "ab")
    offer = other.offer()
    for changed in (b"", offer[:-1], offer + b"x", b"X" + offer[1:]):
        with pytest.raises(MalformedError, match="offer"):
            link.connect(changed)
    no_slots = offer[:8] + bytes(4) + offer[12:]
    with pytest.raises(MalformedError, match="a offers no ring"):
        link.connect(no_slots)
    link.close()
    other.close()


def test_what_has_come_stays_readable(network: Network, bell: Doorbell):
    link, other = (UcxLink(network, bell, name) for name in "ba")
    there, back = link.offer(), other.offer()
    producer, _ = link.connect(back)
    _, consumer = other.connect(there)
    assert link.transports
    assert set(link.transports) <= {"self", "posix", "sysv"}
    assert producer.send(MessageKind.ROWS, b"first")
    assert bell.wait(lambda: consumer.has_arrived, 10)
    message = consumer.receive()
    link.close()
    other.close()
    network.close()
    assert message is not None
    assert bytes(message.payload) == b"first"
    consumer.done(message)  # writes nothing any more
    assert producer.send(MessageKind.ROWS, b"lost")
    assert consumer.receive() is None


@pytest.mark.parametrize("spin_s", [0.0, 0.05])
def test_compiled_loops_wait_as_long_as_the_doorbell_spins(spin_s: float):
    bell = Doorbell.create(spin_s)
    network = Network(bell, transports=SHARED_MEMORY)
    link, other = (UcxLink(network, bell, name, slots=2, slot_bytes=256) for name in "ba")
    there, back = link.offer(), other.offer()
    producer, _ = link.connect(back)
    _, consumer = other.connect(there)
    sends, receives = [], []
    for _ in range(3):
        times = [time.perf_counter()]
        assert not producer.send(MessageKind.ROWS, bytes(1000))  # the third slot waits for a credit
        times.append(time.perf_counter())
        assert consumer.receive() is None  # waits for the third slot
        times.append(time.perf_counter())
        sends.append(times[1] - times[0])
        receives.append(times[2] - times[1])
        while (message := consumer.receive()) is None:
            producer.pump()
        assert len(message.payload) == 1000
    assert (min(sends) >= 0.05) == (min(receives) >= 0.05) == (spin_s > 0)
    link.close()
    other.close()
    network.close()
    bell.close()


def test_a_reset_with_messages_on_their_way_ends_no_process():
    """UCX's own answer to a write ends the process that cannot send it."""
    file = Path(__file__).with_name("ucx_reset.py")
    run = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (run.returncode, run.stdout) == (0, "the peer has ended"), run.stderr


class Received:
    """The handlers of messages, called as UCX calls them."""

    def __init__(self) -> None:
        self.writable = write_messages.Writable(library.load())
        self.memory = np.zeros(24, np.uint8)
        self.at = self.memory.ctypes.data
        self.token = self.writable.add(self.at, 16)

    def __call__(self, number: int, place: int, token: int, content: bytes = b"", word: int = 0):
        call = ctypes.CFUNCTYPE(ctypes.c_int8, *[ctypes.c_size_t] * 6)
        header = (ctypes.c_int64 * 3)(place, token, word)
        held = ctypes.create_string_buffer(content)
        function = call(write_messages.handlers()[number].value or 0)
        parts = (ctypes.addressof(header), 24, ctypes.addressof(held), len(content))
        assert function(self.writable.address, *parts, 0) == 0
        return bytes(self.memory)


@pytest.mark.parametrize("content", [b"", b"a", b"0123456789abcdef"])
def test_a_message_writes_its_region(content: bytes):
    received = Received()
    assert received(library.WRITE, received.at, received.token, content) == content.ljust(24, b"\0")
    assert received(library.ANSWER, received.at, received.token, word=5)[:8] == bytes([5, *[0] * 7])


@pytest.mark.parametrize("place", [-1, 13, 1 << 62])
@pytest.mark.parametrize("number", [library.WRITE, library.ANSWER])
def test_a_message_writes_no_other_place(number: int, place: int):
    received = Received()
    assert received(number, received.at + place, received.token, b"xxxx", -1) == bytes(24)


@pytest.mark.parametrize("wrong", [1, write_messages.MOST_REGIONS])
@pytest.mark.parametrize("number", [library.WRITE, library.ANSWER])
def test_a_message_needs_its_token(number: int, wrong: int):
    received = Received()
    assert received(number, received.at, received.token ^ wrong, b"xxxx", -1) == bytes(24)


def test_a_message_ends_with_its_region():
    received = Received()
    assert received(library.WRITE, received.at, received.token, bytes([1]) * 17) == bytes(24)


def test_a_region_that_is_gone_is_not_written():
    received = Received()
    received.writable.remove(received.token)
    assert received(library.WRITE, received.at, received.token, b"x") == bytes(24)


def test_there_are_only_so_many_regions():
    received = Received()
    for _ in range(write_messages.MOST_REGIONS - 1):
        received.writable.add(received.at, 1)
    with pytest.raises(DeviceError, match="close channels"):
        received.writable.add(received.at, 1)
