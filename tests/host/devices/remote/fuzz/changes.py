"""Random changes of messages that were right."""

from __future__ import annotations

import json
import marshal
from random import Random
from typing import Any

import numpy as np

from penstock.host.devices.remote.wire.column_bytes import pack
from penstock.host.wire.frames import MAGIC, PREFIX

#: Values that are put in the place of others.
JUNK: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 7, 64, 65, 255, 4096, 1.5, -0.0, 1e308, float("nan")),
    *(float("inf"), 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 33, 1 << 40, (1 << 63) - 1, 1 << 63),
    *(-(1 << 63), 1 << 64, -(1 << 64), 10**30, 10**400, "", "x", "0", "-1", "9" * 5000, "\ud800"),
    *("\x1b[2J", "i8", "u4", "bool", "int65", "int66", "f2", "O", "pairs", "nearest", "a" * 3000),
    *([], {}, [[]], [0] * 50, {"rows": 1}, ["int", "5"], ["s", 0], "NaN", "0x1p99999"),
)


def changed(rng: Random, value: Any) -> Any:
    """A copy of a header with one part changed, or several."""
    value = _copied(value)
    for _ in range(1 + int(rng.expovariate(1.2))):
        value = _changed_once(rng, value)
    return value


def _changed_once(rng: Random, value: Any) -> Any:
    place = _place(rng, value)
    if place is None:
        return rng.choice(JUNK)
    inside, key = place
    kind = rng.random()
    if kind < 0.15:
        del inside[key]
    elif kind < 0.25 and isinstance(inside, list):
        inside.insert(key, _copied(inside[key]))
    elif kind < 0.4:
        other, there = _place(rng, value) or place
        inside[key] = _copied(other[there])
    elif kind < 0.65 and type(inside[key]) is int:
        inside[key] += rng.choice((-1, 1, 2, 1 << rng.randrange(70), -(1 << rng.randrange(70))))
    elif kind < 0.7 and isinstance(inside, dict):
        inside[rng.choice(("body", "rings", "call", "x", "rows", "over", "error"))] = rng.choice(
            JUNK
        )
    else:
        inside[key] = _copied(rng.choice(JUNK))
    return value


def _copied(value: Any) -> Any:
    return marshal.loads(marshal.dumps(value))


def _place(rng: Random, value: Any) -> Any:
    """A (container, key) somewhere inside a value, at any depth; None if there is none."""
    place = None
    while isinstance(value, dict | list) and value:
        key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
        place = value, key
        value = value[key]
        if rng.random() < 0.25:
            break
    return place


def frame(text: bytes, body: bytes) -> bytes:
    """A frame as it travels."""
    return PREFIX.pack(MAGIC, len(text), len(body)) + text + body


def message(
    rng: Random,
    header: dict[str, Any],
    columns: list[np.ndarray] | None,
    rate: float,
) -> tuple[bytes, str]:
    """The frame of a message, changed at a rate, and what became of it."""
    body = b""
    if columns is not None and rng.random() < rate / 3:
        columns = _other_columns(rng, columns)
    if columns is not None:
        packed = pack(columns)
        body = b"".join(part.tobytes() for part in packed.chunks())
        header = {**header, "body": packed.layout.header()}
    what = "true"
    if rng.random() < rate:
        what = "changed header"
        header = changed(rng, header)
    text = json.dumps(header).encode()
    if rng.random() < rate / 4:
        what, text = "changed text", flipped(rng, text)
    if rng.random() < rate / 4:
        what, body = "changed body", flipped(rng, body)
    if rng.random() < rate / 50:
        depth = rng.randrange(1, 20_000)
        what, text = "deep", rng.choice((b"[", b'{"a":')) * depth
    return frame(text, body), what


def flipped(rng: Random, text: bytes) -> bytes:
    """Some bytes other, more, or fewer."""
    kind = rng.random()
    if kind < 0.3:
        return text[: rng.randrange(len(text) + 1)]
    if kind < 0.5:
        return text + rng.randbytes(rng.choice((1, 8, 64, 1000)))
    flipped = bytearray(text)
    for _ in range(rng.randrange(1, 9)):
        if flipped:
            flipped[rng.randrange(len(flipped))] = rng.randrange(256)
    return bytes(flipped)


def _other_columns(rng: Random, columns: list[np.ndarray]) -> list[np.ndarray]:
    """One column of another kind or values, one more, or one less."""
    columns = list(columns)
    kind = rng.random()
    if kind < 0.2 and columns:
        columns.pop(rng.randrange(len(columns)))
        return columns
    rows = len(columns[0]) if columns else rng.randrange(9)
    made = _random_column(rng, rows)
    if kind < 0.4 or not columns:
        columns.insert(rng.randrange(len(columns) + 1), made)
    else:
        columns[rng.randrange(len(columns))] = made
    return columns


def _random_column(rng: Random, rows: int) -> np.ndarray:
    kind = rng.choice(("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "?", "O"))
    if kind == "O":
        edges = [rng.randrange(-(1 << b), 1 << b) for b in (1, 8, 63, 64, 65, 200, 511)]
        column = np.empty(rows, object)
        column[:] = [rng.choice(edges) for _ in range(rows)]
        return column
    dtype = np.dtype(kind)
    return np.frombuffer(rng.randbytes(rows * dtype.itemsize), dtype)
