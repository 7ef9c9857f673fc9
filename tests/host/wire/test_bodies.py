"""Columns as Arrow, in messages and in shared memory."""

from __future__ import annotations

import fcntl
import gc
import os

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import DeviceError
from penstock.host.wire.bodies import SHARED, Bodies
from penstock.host.wire.columns import batch_of, columns_of, decoded, encoded, encoded_size
from penstock.host.wire.message import MalformedError, parsed
from penstock.host.wire.segment import LEAST_BYTES, Segment

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


@pytest.mark.parametrize("rows", [7, 3, 0])
def test_columns_arrive_as_they_were(rows: int) -> None:
    columns = [column[:rows] for column in COLUMNS]
    body = encoded(batch_of(columns))
    assert body.size == encoded_size(batch_of(columns))
    same(columns_of(decoded(body)), columns)


def test_no_columns() -> None:
    assert columns_of(decoded(encoded(batch_of([])))) == []


def test_what_is_no_key_does_not_travel() -> None:
    with pytest.raises(DeviceError, match="does not travel"):
        batch_of([np.array(["a", "b"], object)])
    with pytest.raises(DeviceError, match=r"lengths \[1, 2\]"):
        batch_of([np.zeros(1), np.zeros(2)])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no Arrow",
        bytes(encoded(batch_of(COLUMNS)))[:100],
        bytes(encoded(batch_of(COLUMNS)))[:-200],
        encoded(pa.record_batch({"text": ["a"]})).to_pybytes(),
        encoded(pa.record_batch({"null": pa.array([1, None])})).to_pybytes(),
        encoded(pa.record_batch({"list": [[1]]})).to_pybytes(),
    ],
)
def test_malformed_bodies(body: bytes) -> None:
    with pytest.raises(MalformedError):
        columns_of(decoded(pa.py_buffer(body)))


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b"null"])
def test_malformed_headers(text: bytes) -> None:
    with pytest.raises(MalformedError):
        parsed(text)


def test_a_body_goes_through_shared_memory_if_it_fits() -> None:
    ours, theirs = Bodies(), Bodies()
    ours.leaving = Segment.made(1, "key")
    theirs.arriving = Segment.found(ours.leaving.header(), "key")
    header, inline = ours.pack(batch_of(COLUMNS))
    assert inline is None
    batch, passing = theirs.unpack(header, inline)
    assert batch is not None
    assert passing
    same(columns_of(batch), COLUMNS)
    large = [np.zeros(LEAST_BYTES, np.uint8)]
    header, inline = ours.pack(batch_of(large))
    assert header == {}
    batch, passing = theirs.unpack(header, inline)
    assert batch is not None
    assert not passing
    same(columns_of(batch), large)
    ours.close()
    theirs.close()


@pytest.mark.parametrize("size", [0, -1, LEAST_BYTES + 1, 1.5, "5", True])
def test_a_size_that_is_not_in_the_segment(size: object) -> None:
    bodies = Bodies()
    bodies.arriving = Segment.made(1, "key")
    with pytest.raises(MalformedError):
        bodies.unpack({SHARED: size}, None)
    bodies.close()


def test_only_sealed_memory_of_the_session_is_mapped() -> None:
    made = Segment.made(1, "key")
    with pytest.raises(MalformedError, match="not of this session"):
        Segment.found(made.header(), "another key")
    open_file = os.memfd_create("penstock-key", os.MFD_ALLOW_SEALING)
    os.ftruncate(open_file, LEAST_BYTES)
    offered = {"process": os.getpid(), "file": open_file, "bytes": LEAST_BYTES}
    # It could be cut short under the server, which would die of it.
    with pytest.raises(MalformedError, match="not sealed"):
        Segment.found(offered, "key")
    fcntl.fcntl(open_file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    Segment.found(offered, "key").close()
    os.close(open_file)
    with pytest.raises(DeviceError, match="cannot be shared"):
        Segment.found(offered, "key")
    with pytest.raises(MalformedError):
        Segment.found({"process": "self", "file": 1}, "key")
    made.close()


def test_shared_memory_ends_with_its_last_user() -> None:
    def mappings() -> int:
        with open("/proc/self/maps") as maps:
            return maps.read().count("penstock-gone")

    made = Segment.made(1, "gone")
    found = Segment.found(made.header(), "gone")
    assert mappings() == 2
    with pytest.raises(PermissionError):
        os.ftruncate(made.header()["file"], 1)
    made.close()
    found.close()
    del made, found
    gc.collect()
    assert mappings() == 0
