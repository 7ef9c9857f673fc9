"""Columns as bytes in messages."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from penstock.errors import DeviceError, OverloadError
from penstock.host.device.fields import MalformedError
from penstock.host.devices.remote.wire.column_bytes import (
    BODY,
    ColumnLayout,
    columns_of,
    pack,
    unpack,
)
from penstock.host.wire.message import parse_header

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
        columns_of(header, np.zeros(packed.layout.size + change, np.uint8))
    with pytest.raises(MalformedError, match="bytes came as 0"):
        columns_of(header, None)
    with pytest.raises(MalformedError, match="does not tell of"):
        columns_of({}, np.zeros(1, np.uint8))


def test_what_integers_take_is_counted_before_they_are_made() -> None:
    """A Python integer has more bytes than travel."""
    header = {BODY: {"rows": 1 << 20, "kinds": ["int1"]}}

    def reserve(size: int) -> None:
        assert size >= (1 << 20) * sys.getsizeof(1)
        raise OverloadError("no room")

    with pytest.raises(OverloadError):
        columns_of(header, np.zeros(1 << 20, np.uint8), reserve)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b"null", b"[" * 10**6, b"9" * 10**5])
def test_malformed_headers(text: bytes) -> None:
    with pytest.raises(MalformedError):
        parse_header(text)
