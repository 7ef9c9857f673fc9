"""Columns as bytes, in messages and in shared memory."""

from __future__ import annotations

import fcntl
import gc
import json
import os
import sys

import numpy as np
import pytest

from penstock.errors import DeviceError, OverloadError
from penstock.host.device.fields import MalformedError
from penstock.host.devices.remote.wire.bodies import BODY, SHARED, Bodies
from penstock.host.devices.remote.wire.columns import ColumnLayout, pack, unpack
from penstock.host.devices.remote.wire.segment import LEAST_BYTES, Segment
from penstock.host.wire.message import parse_header

pytestmark = pytest.mark.skipif(not Segment.possible(), reason="memfd is there on Linux only")

INTEGERS = np.array([0, -1, 127, 128, -(1 << 80), 1 << 80, (1 << 64) - 1], object)
COLUMNS = [
    np.arange(7, dtype=np.uint16),
    np.arange(14, dtype=np.int64)[::2],
    np.array([True, False, True, True, False, False, True]),
    np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-310, 2.5]),
    np.arange(7, dtype=np.float32),
    INTEGERS,
]


def same(got: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    for a, b in zip(got, wanted, strict=True):
        assert a.dtype == b.dtype
        if a.dtype == object:
            assert a.tolist() == b.tolist()
        else:
            assert a.tobytes() == np.ascontiguousarray(b).tobytes()


def through_bytes(columns: list[np.ndarray]) -> list[np.ndarray]:
    packed = pack(columns)
    body = np.concatenate([np.zeros(0, np.uint8), *packed.chunks()])
    assert len(body) == packed.layout.size
    return unpack(ColumnLayout.parsed(json.loads(json.dumps(packed.layout.header()))), body)


@pytest.mark.parametrize("rows", [7, 3, 0])
def test_columns_arrive_as_they_were(rows: int) -> None:
    columns = [column[:rows] for column in COLUMNS]
    same(through_bytes(columns), columns)


def test_no_columns() -> None:
    assert through_bytes([]) == []


def test_what_is_no_key_does_not_travel() -> None:
    with pytest.raises(DeviceError, match="does not travel"):
        pack([np.array(["a", "b"], object)])
    with pytest.raises(DeviceError, match=r"lengths \[1, 2\]"):
        pack([np.zeros(1), np.zeros(2)])
    with pytest.raises(DeviceError, match="at most 512 bits"):
        pack([np.array([1 << 520], object)])
    with pytest.raises(DeviceError, match="too many for one message"):
        pack([np.broadcast_to(np.uint8(0), (1 << 30) + 1)])


@pytest.mark.parametrize("value", [1 << 511, -(1 << 511), (1 << 512) - 1, 1 - (1 << 512), -1, 0])
def test_integers_of_every_width(value: int) -> None:
    (column,) = through_bytes([np.array([value, 5], object)])
    assert column.tolist() == [value, 5]


@pytest.mark.parametrize(
    ("described", "message"),
    [
        (None, "rows and kinds"),
        ([], "rows and kinds"),
        ({}, "needs rows"),
        ({"rows": 1}, "needs kinds"),
        ({"rows": "1", "kinds": []}, "needs rows"),
        ({"rows": True, "kinds": []}, "needs rows"),
        ({"rows": 1, "kinds": []}, "0 columns cannot have 1 rows"),
        ({"rows": -1, "kinds": ["u1"]}, "cannot have -1 rows"),
        ({"rows": 1 << 40, "kinds": ["u1"]}, "cannot have"),
        ({"rows": 1 << 28, "kinds": ["u8"]}, "above the 1073741824 of a message"),
        ({"rows": 1, "kinds": ["u1"] * 5000}, "5000 columns"),
        *(
            ({"rows": 1, "kinds": [kind]}, "which no key has")
            for kind in ("O", "f2", "u16", "int0", "int66", "int2000", "large_binary", 1, None, [])
        ),
    ],
)
def test_malformed_layouts(described: object, message: str) -> None:
    with pytest.raises(MalformedError, match=message):
        ColumnLayout.parsed(described)


@pytest.mark.parametrize("change", [-1, 1, 64])
def test_a_body_of_another_size(change: int) -> None:
    packed = pack(COLUMNS)
    header = {BODY: packed.layout.header()}
    with pytest.raises(MalformedError, match="bytes came as"):
        Bodies().unpack(header, np.zeros(packed.layout.size + change, np.uint8))
    with pytest.raises(MalformedError, match="bytes came as 0"):
        Bodies().unpack(header, None)
    with pytest.raises(MalformedError, match="does not tell of"):
        Bodies().unpack({}, np.zeros(1, np.uint8))


def test_what_integers_take_is_counted_before_they_are_made() -> None:
    """A Python integer has more bytes than travel."""
    header = {BODY: {"rows": 1 << 20, "kinds": ["int1"]}}

    def reserve(size: int) -> None:
        assert size >= (1 << 20) * sys.getsizeof(1)
        raise OverloadError("no room")

    with pytest.raises(OverloadError):
        Bodies().unpack(header, np.zeros(1 << 20, np.uint8), reserve)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b"null", b"[" * 10**6, b"9" * 10**5])
def test_malformed_headers(text: bytes) -> None:
    with pytest.raises(MalformedError):
        parse_header(text)


def test_a_body_goes_through_shared_memory_if_it_fits() -> None:
    ours, theirs = Bodies(), Bodies()
    ours.leaving = Segment.create(1, "key")
    theirs.arriving = Segment.open(ours.leaving.header(), "key")
    header, parts = ours.pack(pack(COLUMNS))
    assert not parts
    same(theirs.unpack(header, None), COLUMNS)
    large = [np.zeros(LEAST_BYTES + 1, np.uint8)]
    header, parts = ours.pack(pack(large))
    same(theirs.unpack(header, np.concatenate(parts)), large)
    ours.close()
    theirs.close()


def test_what_was_read_from_shared_memory_stays_as_it_was() -> None:
    """The other side can write there while a task is checked and runs."""
    ours, theirs = Bodies(), Bodies()
    ours.leaving = Segment.create(1, "key")
    theirs.arriving = Segment.open(ours.leaving.header(), "key")
    header, _ = ours.pack(pack(COLUMNS))
    got = theirs.unpack(header, None)
    ours.leaving.memory[:] = 0xFF
    same(got, COLUMNS)
    assert not any(np.shares_memory(column, theirs.arriving.memory) for column in got[:-1])
    ours.close()
    theirs.close()


@pytest.mark.parametrize("rows", [LEAST_BYTES + 1, 1 << 30])
def test_columns_that_are_not_in_the_segment(rows: int) -> None:
    bodies, header = Bodies(), {BODY: {"rows": rows, "kinds": ["u1"], SHARED: True}}
    with pytest.raises(MalformedError, match="not there"):
        bodies.unpack(header, None)
    bodies.arriving = Segment.create(1, "key")
    with pytest.raises(MalformedError, match="not there"):
        bodies.unpack(header, None)
    bodies.close()


def test_only_sealed_memory_of_the_session_is_mapped() -> None:
    made = Segment.create(1, "key")
    with pytest.raises(MalformedError, match="not of this session"):
        Segment.open(made.header(), "another key")
    open_file = os.memfd_create("penstock-key", os.MFD_ALLOW_SEALING)
    os.ftruncate(open_file, LEAST_BYTES)
    offered = {"process": os.getpid(), "file": open_file, "bytes": LEAST_BYTES}
    # It could be cut short under the server, which would die of it.
    with pytest.raises(MalformedError, match="not sealed"):
        Segment.open(offered, "key")
    fcntl.fcntl(open_file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    Segment.open(offered, "key").close()
    os.close(open_file)
    with pytest.raises(DeviceError, match="cannot be shared"):
        Segment.open(offered, "key")
    with pytest.raises(MalformedError):
        Segment.open({"process": "self", "file": 1}, "key")
    made.close()


def test_shared_memory_ends_with_its_last_user() -> None:
    def mappings() -> int:
        with open("/proc/self/maps") as maps:
            return maps.read().count("penstock-gone")

    made = Segment.create(1, "gone")
    found = Segment.open(made.header(), "gone")
    assert mappings() == 2
    with pytest.raises(PermissionError):
        os.ftruncate(made.header()["file"], 1)
    made.close()
    found.close()
    del made, found
    gc.collect()
    assert mappings() == 0
