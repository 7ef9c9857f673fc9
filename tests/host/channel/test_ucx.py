"""UCX as a provider: the library, and offers; the suite of all providers is elsewhere."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Iterator

import pytest

from penstock.errors import DeviceError, MissingToolError, UsageError, VersionError
from penstock.host.channel import Doorbell, Kind
from penstock.host.channel.ucx import Network, UcxLink, library
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
    with pytest.raises(MissingToolError, match=rf"no function {symbol}: .*penstock\[rdma\]"):
        library.Library(Shared(lacks=symbol))


@pytest.mark.parametrize("version", [(1, 18), (1, 23), (2, 20), (0, 20)])
def test_another_version_is_refused(version: tuple[int, int]):
    found = rf"UCX {version[0]}\.{version[1]}\.7 is loaded.*penstock\[rdma\].* 1\.19 to 1\.22"
    with pytest.raises(VersionError, match=found):
        library.Library(Shared(version=version))


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, bell: Doorbell):
    monkeypatch.setattr(library, "_loaded", [])
    monkeypatch.setattr(library, "_NAME", "none has been loaded before")
    monkeypatch.setitem(sys.modules, "libucx", None)
    with pytest.raises(MissingToolError, match=r"need UCX.*penstock\[rdma\]"):
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
    assert producer.send(Kind.ROWS, b"first")
    assert bell.wait(lambda: consumer.has_arrived, 10)
    message = consumer.receive()
    link.close()
    other.close()
    network.close()
    assert message is not None
    assert bytes(message.payload) == b"first"
    consumer.done(message)  # writes nothing any more
    assert producer.send(Kind.ROWS, b"lost")
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
        assert not producer.send(Kind.ROWS, bytes(1000))  # the third slot waits for a credit
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
