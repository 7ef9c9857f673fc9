"""Rows of 100 bytes, the keys and boxes that are looked for, and sums by which rows compare."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from pathlib import Path

import numpy as np
import pyarrow as pa

from penstock.host.keys import splitmix

NAME_CHARS = 76
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("plan", pa.int64()),
        ("x", pa.int32()),
        ("y", pa.int32()),
        ("name", pa.string()),
    ]
)
#: Coordinates are from 0 to this, without it: of two, 40 bits.
COORDINATE_BITS = 20
PLACES = 1 << COORDINATE_BITS

_BATCH_ROWS = 1 << 16
#: Rows whose sums are computed at once: their numbers take little memory.
_SUMMED_ROWS = 1 << 12
#: Characters whose codes are made of one random number.
_LETTERS = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 .", np.uint8
)
_PER_NUMBER = 4
_NUMBERS = NAME_CHARS // _PER_NUMBER
#: Towns that most rows are near, and the standard deviation of their distance.
_TOWNS, _SPREAD = 64, PLACES / 40
_IN_TOWNS = 0.7


def mixed(values: np.ndarray, salt: int = 0) -> np.ndarray:
    """Random numbers that are a function of values."""
    start = np.uint64((salt * int(splitmix.SEED) + 0x1234567) % (1 << 64))
    return splitmix.mixed(values.astype(np.uint64) + start)


def _even(values: np.ndarray, salt: int) -> np.ndarray:
    """Numbers from 0 to 1."""
    return (mixed(values, salt) >> np.uint64(11)).astype(np.float64) / (1 << 53)


def rows_of(ids: np.ndarray, salt: int = 0) -> pa.RecordBatch:
    """Rows with some ids; another salt gives them other plans and names."""
    in_town = _even(ids, 1) < _IN_TOWNS
    town = mixed(ids, 2) % np.uint64(_TOWNS)
    distance = _SPREAD * np.sqrt(-2 * np.log(np.maximum(_even(ids, 3), 1e-12)))
    angle = 2 * np.pi * _even(ids, 4)
    places = []
    for way, at in enumerate((distance * np.cos(angle), distance * np.sin(angle))):
        near = _even(town, 5 + way) * PLACES + at
        place = np.where(in_town, near, _even(ids, 7 + way) * PLACES)
        places.append(np.clip(place, 0, PLACES - 1).astype(np.int32))
    numbers = mixed(ids[:, None].astype(np.uint64) * np.uint64(_NUMBERS) + np.arange(
        _NUMBERS, dtype=np.uint64), 9 + salt)  # fmt: skip
    shifts = np.arange(_PER_NUMBER, dtype=np.uint64) * np.uint64(6)
    letters = _LETTERS[(numbers[:, :, None] >> shifts) & np.uint64(63)]
    plans = (mixed(ids, 10 + salt) % np.uint64(1000)).astype(np.int64)
    name = texts(letters.reshape(len(ids), NAME_CHARS))
    return pa.record_batch([ids.astype(np.int64), plans, *places, name], schema=SCHEMA)


def texts(letters: np.ndarray) -> pa.Array:
    """Names from the codes of their characters, shape (n, NAME_CHARS)."""
    offsets = np.arange(len(letters) + 1, dtype=np.int32) * NAME_CHARS
    data = np.ascontiguousarray(letters).reshape(-1)
    return pa.Array.from_buffers(
        pa.string(), len(letters), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


@dataclass(frozen=True)
class Data:
    """The rows of a relation, in no order, and what is looked for.

    Parameters
    ----------
    rows : int
    """

    rows: int

    def _ids(self, positions: np.ndarray) -> np.ndarray:
        """Even numbers in no order: the odd ones are no row's."""
        step = 0x9E3779B1
        while gcd(step, self.rows) > 1:
            step += 2
        return (positions * step + 12_345) % self.rows * 2

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows."""
        for at in range(0, self.rows, _BATCH_ROWS):
            yield rows_of(self._ids(np.arange(at, min(at + _BATCH_ROWS, self.rows))))

    def write(self, path: Path) -> None:
        """Write all rows as an Arrow stream."""
        with pa.ipc.new_stream(path, SCHEMA) as out:
            for batch in self.batches():
                out.write_batch(batch)

    def keys(self, count: int, seed: int) -> np.ndarray:
        """Distinct ids: few of them are in most batches, as Zipf's law of exponent 1 has it."""
        random = np.random.default_rng(seed)
        ranks = np.zeros(0, np.int64)
        while len(ranks) < count:
            drawn = np.exp(random.random(count) * np.log(self.rows + 1)).astype(np.int64) - 1
            ranks = np.unique(np.concatenate([ranks, drawn]))
        return self._ids(random.permutation(ranks)[:count] * 31 % self.rows)

    def boxes(self, count: int, share: float, seed: int = 3) -> np.ndarray:
        """Boxes around rows: least and greatest x, least and greatest y of each.

        Parameters
        ----------
        share : float
            Of the area.
        """
        random = np.random.default_rng(seed)
        middle = rows_of(random.integers(0, self.rows, count) * 2)
        half = int(PLACES * share**0.5 / 2)
        x, y = (middle.column(name).to_numpy().astype(np.int64) for name in ("x", "y"))
        return np.stack([x - half, x + half, y - half, y + half], axis=1)

    def changed(self) -> tuple[pa.Table, np.ndarray]:
        """1 % of the keys: rows that replace theirs, and one in ten to be removed."""
        chosen = self._ids(np.arange(0, self.rows, 100))
        gone = chosen[::10]
        kept = np.setdiff1d(chosen, gone)
        return pa.Table.from_batches([rows_of(kept, salt=50)]), gone


def digest(rows: pa.RecordBatch | pa.Table) -> tuple[int, int]:
    """Number of rows, and a sum that depends on id, plan and name, but not on the order."""
    total = 0
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    weights = mixed(np.arange(_NUMBERS))
    for part in table.to_batches(max_chunksize=_SUMMED_ROWS):
        ids = part.column("id").to_numpy().astype(np.uint64)
        plans = part.column("plan").to_numpy().astype(np.uint64)
        name = letters_of(part.column("name")).view(np.uint32).astype(np.uint64) @ weights
        total += int(mixed(mixed(ids) + plans * np.uint64(31) + name).sum(dtype=np.uint64))
    return rows.num_rows, total % (1 << 64)


def letters_of(names: pa.Array) -> np.ndarray:
    """Codes of the characters of names, shape (n, NAME_CHARS)."""
    if not len(names):
        return np.zeros((0, NAME_CHARS), np.uint8)
    text = names.cast(pa.large_string())
    _, offsets, data = text.buffers()
    first = np.frombuffer(offsets, np.int64)[text.offset]
    letters = np.frombuffer(data, np.uint8)[first:]
    return letters[: len(text) * NAME_CHARS].reshape(-1, NAME_CHARS)
