"""Frames through a channel: as through a socket, and what is wrong in the rings is noticed."""

from __future__ import annotations

import fcntl
import gc
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import DeviceError, OverloadError
from penstock.host.channel import FOOTER_BYTES, MessageKind
from penstock.host.channel.shm import SLOT_BYTES, SLOTS
from penstock.host.device.fields import MalformedError
from penstock.host.devices.remote.wire.channel import ChannelTransport
from penstock.host.devices.remote.wire.rings import Rings
from penstock.host.wire.frames import MAGIC, PREFIX, Frames
from penstock.host.wire.transport import FrameError, GoneError

pytestmark = pytest.mark.skipif(not Rings.possible(), reason="memfd is there on Linux only")

_STALL_S, _WAIT_S = 0.2, 30.0
#: Word of a ring in which the consumer counts, and where the slots begin.
_CREDIT_WORD, _SLOTS_AT = 2048 // 8, 4096


class Ends:
    """Both ends of a connection, which goes through a channel."""

    def __init__(self, stall_s: float = _WAIT_S) -> None:
        self.rings = Rings.create("key")
        opened = Rings.open(self.rings.header(), "key")
        self.rings.close()
        self.client, self.server = (Frames(end, _WAIT_S) for end in socket.socketpair())
        for frames, rings, is_server in (
            (self.client, self.rings, False),
            (self.server, opened, True),
        ):
            frames.open_up()
            frames.go_over(
                ChannelTransport(
                    frames.connection,
                    rings,
                    is_server=is_server,
                    spin_s=lambda: 0.0,
                    stall_s=stall_s,
                )
            )

    def ring(self, side: int) -> np.ndarray:
        """Memory of the ring that a side reads."""
        return self.rings._ring(side)

    def slot(self, side: int, place: int) -> np.ndarray:
        start = _SLOTS_AT + place * SLOT_BYTES
        return self.ring(side)[start : start + SLOT_BYTES]

    def put(self, data: bytes) -> None:
        """Let the client send bytes."""
        self.client.transport.send([memoryview(data)], nullcontext)

    def close(self) -> None:
        self.client.close()
        self.server.close()


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.close()


@pytest.fixture
def hasty() -> Iterator[Ends]:
    """Ends that wait for a fifth of a second only."""
    made = Ends(_STALL_S)
    yield made
    made.close()


def elsewhere(act: Callable[[], object]) -> Callable[[], object]:
    """Do something in another thread; call the result to wait for it."""
    threads = ThreadPoolExecutor(1)
    future = threads.submit(act)
    threads.shutdown(wait=False)
    return lambda: future.result(_WAIT_S)


_SIZES = st.one_of(
    st.integers(0, 300),
    st.sampled_from([SLOT_BYTES - FOOTER_BYTES + d for d in (-40, -17, -16, -1, 0, 1, 64)]),
    st.integers(0, 12 * SLOT_BYTES),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(_SIZES, max_size=3), min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_frames_arrive_as_they_were(messages: list[list[int]], seed: int) -> None:
    """Of all sizes, small and beyond the ring, there and back."""
    ends, rng = Ends(), np.random.default_rng(seed)
    sent = [[rng.integers(0, 256, size, np.uint8) for size in sizes] for sizes in messages]

    def echo() -> None:
        for _ in sent:
            header, body = ends.server.receive()
            ends.server.send(header, () if body is None else (body,))

    over = elsewhere(echo)
    for number, parts in enumerate(sent):
        ends.client.send({"number": number, "x": "y" * len(parts)}, parts)
        header, body = ends.client.receive()
        assert header == {"number": number, "x": "y" * len(parts)}
        wanted = b"".join(part.tobytes() for part in parts)
        assert (b"" if body is None else body.tobytes()) == wanted
    over()
    ends.close()


def test_what_was_received_stays_as_it_was(ends: Ends) -> None:
    """The other side can write into the slots at any time."""
    columns = np.arange(1000, dtype=np.uint8)
    ends.client.send({"a": 1}, (columns,))
    header, body = ends.server.receive()
    ends.ring(1)[_SLOTS_AT:] = 0xFF
    assert header == {"a": 1}
    assert body is not None
    np.testing.assert_array_equal(body, columns)


def test_limits_hold_before_anything_is_allocated(ends: Ends) -> None:
    ends.put(PREFIX.pack(MAGIC, 2, 1 << 40) + b"{}")
    with pytest.raises(FrameError, match="above the limits"):
        ends.server.receive()


def test_a_message_that_is_too_much_is_read_past(ends: Ends) -> None:
    def reserve(size: int) -> None:
        raise OverloadError(f"no room for {size}")

    over = elsewhere(lambda: ends.client.send({}, (np.zeros(10 * SLOT_BYTES, np.uint8),)))
    with pytest.raises(OverloadError):
        ends.server.receive(reserve)
    over()
    ends.client.send({"next": 1})
    assert ends.server.receive() == ({"next": 1}, None)


def test_a_few_bytes_are_said_or_none(ends: Ends) -> None:
    for _ in range(SLOTS + 3):
        ends.server.say({"over": "x"})
    for _ in range(SLOTS):
        assert ends.client.receive()[0] == {"over": "x"}
    ends.server.say({"over": "y"})
    assert ends.client.receive()[0] == {"over": "y"}


# -- ends -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["close", "end", "cancel"])
def test_who_waits_for_a_message_notices_the_end(ends: Ends, how: str) -> None:
    over = elsewhere(lambda: ends.server.receive())
    getattr(ends.client if how == "close" else ends.server, how)()
    with pytest.raises(GoneError):
        over()


def test_what_came_before_the_end_is_received(ends: Ends) -> None:
    ends.client.send({"last": 1})
    ends.client.close()
    assert ends.server.receive()[0] == {"last": 1}
    with pytest.raises(GoneError, match="closed"):
        ends.server.receive()


def test_what_is_being_sent_at_the_end_is_still_sent(ends: Ends) -> None:
    sent = np.random.default_rng(1).integers(0, 256, 40 * SLOT_BYTES, np.uint8)
    over = elsewhere(lambda: ends.server.send({}, (sent,)))
    # The ring is full, and the other side has not begun to read.
    while ends.ring(0).view(np.uint64)[(_SLOTS_AT + SLOT_BYTES) // 8 - 1] < SLOTS:
        pass
    ends.server.end()
    _, body = ends.client.receive()
    assert body is not None
    np.testing.assert_array_equal(body, sent)
    over()


def test_who_waits_for_credits_notices_the_end(ends: Ends) -> None:
    over = elsewhere(lambda: ends.server.send({}, (np.zeros(40 * SLOT_BYTES, np.uint8),)))
    ends.client.close()
    with pytest.raises(GoneError):
        over()


def test_who_takes_nothing_counts_as_gone(hasty: Ends) -> None:
    with pytest.raises(GoneError, match="takes nothing"):
        hasty.server.send({}, (np.zeros(40 * SLOT_BYTES, np.uint8),))


def test_who_stops_within_a_message_counts_as_gone(hasty: Ends) -> None:
    """Also if it rings all the time."""
    hasty.put(PREFIX.pack(MAGIC, 100, 0) + b"{")
    over = threading.Event()

    def ring() -> None:
        while not over.is_set():
            hasty.client.connection.send(b"\1" * 100)

    rings = elsewhere(ring)
    with pytest.raises(GoneError, match="stopped within"):
        hasty.server.receive()
    over.set()
    rings()


def test_who_was_stopped_itself_looks_again(hasty: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after SIGSTOP: the time is over, and the rest of the message is there."""
    hasty.put(PREFIX.pack(MAGIC, 2, 0) + b"{")
    transport = hasty.server.transport
    assert isinstance(transport, ChannelTransport)
    clock = time.monotonic()

    def wait(*_: object) -> None:
        nonlocal clock
        clock += 100
        hasty.put(b"}")

    monkeypatch.setattr(transport._bell, "wait", wait)
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    assert hasty.server.receive() == ({}, None)


# -- damage ---------------------------------------------------------------------------------------


def _sequence(number: int) -> Callable[[Ends], None]:
    def change(ends: Ends) -> None:
        ends.slot(1, 1).view(np.uint64)[-1] = number

    return change


def _footer(at: int, form: str, value: int) -> Callable[[Ends], None]:
    def change(ends: Ends) -> None:
        struct.pack_into(form, ends.slot(1, 1).data, SLOT_BYTES - FOOTER_BYTES + at, value)

    return change


@pytest.mark.parametrize(
    "change",
    [
        _sequence(2),
        _sequence((1 << 64) - 1),
        _footer(0, "<I", SLOT_BYTES),
        _footer(0, "<I", (1 << 32) - 1),
        _footer(0, "<I", 0),
        _footer(4, "<H", 0),
        _footer(4, "<H", MessageKind.CLOSE),
        _footer(4, "<H", 99),
        _footer(6, "<H", 2),
        _footer(8, "<Q", 77),
        _footer(20, "<I", 1),
    ],
)
def test_a_damaged_slot_is_no_frame(ends: Ends, change: Callable[[Ends], None]) -> None:
    ends.client.send({"a": 1})
    change(ends)
    with pytest.raises(FrameError):
        ends.server.receive()


@pytest.mark.parametrize("count", [1 << 63, (1 << 64) - 1])
def test_an_impossible_count_of_credits(ends: Ends, count: int) -> None:
    ends.ring(1).view(np.uint64)[_CREDIT_WORD] = count
    with pytest.raises(GoneError, match="the consumer says"):
        ends.client.send({}, (np.zeros(40 * SLOT_BYTES, np.uint8),))


def test_rings_of_other_slots_are_refused() -> None:
    rings = Rings.create("key")
    # The number of slots, behind magic and version.
    rings._ring(0)[12:16] = np.array([4], np.uint32).view(np.uint8)
    with pytest.raises(MalformedError):
        rings.ring(0)
    rings.close()


# -- memory ---------------------------------------------------------------------------------------


def test_only_sealed_memory_of_the_session_is_mapped() -> None:
    made = Rings.create("key")
    size = len(made.memory)
    with pytest.raises(MalformedError, match="not of this session"):
        Rings.open(made.header(), "another key")
    file = os.memfd_create("penstock-key", os.MFD_ALLOW_SEALING)
    os.ftruncate(file, size)
    offered = {"process": os.getpid(), "file": file}
    # It could be cut short under the server, which would die of it.
    with pytest.raises(MalformedError, match="not sealed"):
        Rings.open(offered, "key")
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    Rings.open(offered, "key").close()
    os.ftruncate(file, size + 4096)
    with pytest.raises(MalformedError, match="wrong size"):
        Rings.open(offered, "key")
    os.close(file)
    with pytest.raises(DeviceError, match="cannot be shared"):
        Rings.open(offered, "key")
    with pytest.raises(MalformedError):
        Rings.open({"process": "self", "file": 1}, "key")
    made.close()


def test_memory_ends_with_its_last_user() -> None:
    def mappings() -> int:
        with open("/proc/self/maps") as maps:
            return maps.read().count("penstock-gone")

    made = Rings.create("gone")
    found = Rings.open(made.header(), "gone")
    assert mappings() == 2
    with pytest.raises(PermissionError):
        os.ftruncate(made.header()["file"], 1)
    made.close()
    found.close()
    del made, found
    gc.collect()
    assert mappings() == 0
