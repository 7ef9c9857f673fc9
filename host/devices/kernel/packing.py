"""Packs tasks of kernels of every sort as memory words and arguments, and reads their results.

Nothing here knows the hardware's sources: all sizes come from the table that a kernel exports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from penstock.errors import DeviceError

#: Name of the argument that points to the results.
RESULTS = "results"
#: That of a window which stays in memory for several tasks.
WINDOW = "window"

#: Status codes of a task that has a result.
_GOOD = ("OK", "PAUSED")


@dataclass(frozen=True)
class Records:
    """Matches from the records of a kernel, one element per match."""

    #: Number among the units of all pipelines: tuple i of a pass is in unit i modulo their number.
    unit: np.ndarray
    ordinal: np.ndarray


@dataclass(frozen=True)
class KernelLayout:
    """The memory layout of a kernel of any sort.

    Parameters
    ----------
    table : mapping
        The kernel's exported table.
    """

    table: Mapping[str, Any]

    @property
    def _geometry(self) -> Mapping[str, Any]:
        return self.table["geometry"]

    @property
    def word_bytes(self) -> int:
        """Bytes of a result word."""
        return self._geometry["word_bytes"]

    @property
    def header_bytes(self) -> int:
        """Bytes of the header before the result words; all addresses are multiples of it."""
        return self._geometry["align_bytes"]

    def _whole(self, rows: np.ndarray) -> np.ndarray:
        """Slots of items one after the other, padded with zeros to the next address."""
        flat = rows.reshape(-1)
        padded = np.zeros(self._rounded(len(flat)), np.uint8)
        padded[: len(flat)] = flat
        return padded

    def _rounded(self, size: int) -> int:
        """A number of bytes, rounded up to the next address."""
        return -(-size // self.header_bytes) * self.header_bytes


@dataclass(frozen=True)
class Packing(KernelLayout):
    """The memory layout of a join kernel.

    Parameters
    ----------
    window_keys : int
        Window keys of the program; further keys of the kernel are 0.
    window_values : int
        Columns of values to fold, after the keys: 0 or 1.
    """

    window_keys: int
    window_values: int = 0

    def window_bytes(self, positions: int) -> int:
        """Bytes of a window, in whole words."""
        return self._rounded(positions * self._geometry["window_slot_bits"] // 8)

    def positions(self, size: int) -> int:
        """Window tuples that so many bytes hold."""
        return (
            size // self.header_bytes * self.header_bytes * 8 // self._geometry["window_slot_bits"]
        )

    def window(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """Window keys and values, a row of bytes per position."""
        geometry = self._geometry
        slot, widths = geometry["window_slot_bits"], geometry["window_key_bits"]
        keys, value = columns[: self.window_keys], columns[self.window_keys :]
        if not value or not geometry["window_value_bits"]:
            return item_slots(keys, widths[: self.window_keys], slot)
        spare = [np.zeros(len(value[0]), np.uint8)] * (len(widths) - self.window_keys)
        return item_slots([*keys, *spare, *value], [*widths, geometry["window_value_bits"]], slot)

    def tuples(
        self, columns: Sequence[np.ndarray], start: np.ndarray, end: np.ndarray
    ) -> np.ndarray:
        """Stream tuples with their ranges, as whole words."""
        widths = [32, 32, *self._geometry["stream_key_bits"]]
        bits = self._geometry["tuple_slot_bits"]
        return self._whole(item_slots([start, end, *columns], widths, bits))

    def passes(self, tuples: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """Passes, as whole words."""
        bits, pipelines = self._geometry["pass_slot_bits"], self._geometry["pipelines"]
        fields = [tuples, begin, end]
        if pipelines > 1:
            fields.append(tuples // pipelines)
        return self._whole(item_slots(fields, [32] * len(fields), bits))

    def value_words(self, count: int) -> int:
        """Result words of so many aggregates."""
        slot, word = self._geometry["value_slot_bits"] // 8, self.word_bytes
        return count * (slot // word) if slot > word else -(-count * slot // word)

    def values(self, words: np.ndarray, count: int) -> list[int]:
        """Aggregates of ``count`` stream tuples from result words (bytes), each as one integer."""
        size = self._geometry["value_slot_bits"] // 8
        raw = words.tobytes()
        return [
            int.from_bytes(raw[at : at + size], "little") for at in range(0, count * size, size)
        ]

    def records(self, words: np.ndarray) -> Records:
        """Matches in result words (bytes), in the order of memory."""
        geometry = self._geometry
        lanes, ordinal_bits = geometry["lanes"], geometry["ordinal_bits"]
        parts = words.view("<u4").reshape(-1, lanes, 2)
        word, lane = np.nonzero(parts[:, :, 1])
        name, mask = parts[word, lane].T
        member = name >> ordinal_bits if ordinal_bits < 32 else np.zeros_like(name)
        block = member.astype(np.int64) * lanes + lane
        ordinal = (name & np.uint32((1 << ordinal_bits) - 1)).astype(np.int64)
        bits = np.unpackbits(
            np.ascontiguousarray(mask).view(np.uint8).reshape(-1, 4), axis=1, bitorder="little"
        )
        record, unit = np.nonzero(bits)
        pipeline, local = np.divmod(block[record], geometry["blocks"])
        unit = local * geometry["units_per_block"] + unit
        return Records(unit * geometry["pipelines"] + pipeline, ordinal[record])


def header_fields(table: Mapping[str, Any], word: np.ndarray) -> dict[str, int]:
    """Fields of a result header, by the table of the kernel that wrote it."""
    value, fields = int.from_bytes(word.tobytes(), "little"), {}
    for name, bits in table["header"].items():
        fields[name] = value & (1 << bits) - 1
        value >>= bits
    return fields


def item_slots(columns: Sequence[np.ndarray], widths: Sequence[int], slot_bits: int) -> np.ndarray:
    """A row of ``slot_bits // 8`` bytes per item, the first column in the lowest bits."""
    count = len(columns[0]) if columns else 0
    if all(width in (8, 16, 32, 64) for width in widths) and not any(
        np.asarray(column).dtype == object for column in columns
    ):
        return _byte_slots(columns, widths, slot_bits // 8)
    bits = [_bits(column, width) for column, width in zip(columns, widths, strict=True) if width]
    rows = np.zeros((count, slot_bits // 8), np.uint8)
    if bits and count:
        packed = np.packbits(np.concatenate(bits, axis=1), axis=1, bitorder="little")
        rows[:, : packed.shape[1]] = packed
    return rows


def _byte_slots(
    columns: Sequence[np.ndarray], widths: Sequence[int], slot_bytes: int
) -> np.ndarray:
    """Pack columns of whole bytes by copying them; see :func:`item_slots`."""
    kinds = [f"<u{width // 8}" for width in widths]
    names = [f"k{number}" for number in range(len(widths))]
    rows = np.zeros(
        len(columns[0]) if columns else 0,
        np.dtype(
            {"names": names, "formats": kinds, "offsets": _offsets(widths), "itemsize": slot_bytes}
        ),
    )
    for name, column in zip(names, columns, strict=True):
        rows[name] = np.asarray(column).astype(rows.dtype[name], copy=False)
    return rows.view(np.uint8).reshape(len(rows), slot_bytes)


def _offsets(widths: Sequence[int]) -> list[int]:
    ends = list(accumulate(width // 8 for width in widths))
    return [end - width // 8 for end, width in zip(ends, widths, strict=True)]


def _bytes_of(column: np.ndarray, width: int) -> np.ndarray:
    """Values in two's complement, a row of bytes each, the lowest first."""
    if column.dtype == object:
        size, mask = -(-width // 8), (1 << width) - 1
        joined = b"".join((int(v) & mask).to_bytes(size, "little") for v in column.tolist())
    else:
        size = 8
        wide = column.astype(np.uint64 if column.dtype == np.uint64 else np.int64, copy=False)
        joined = np.ascontiguousarray(wide, wide.dtype.newbyteorder("<")).tobytes()
    return np.frombuffer(joined, np.uint8).reshape(len(column), size)


def _bits(column: np.ndarray, width: int) -> np.ndarray:
    """The lowest bits of each value, a byte each; a fixed width beyond 64 repeats the sign."""
    column = np.asarray(column)
    if width > 64 and column.dtype != object:
        column = column.astype(object)
    return np.unpackbits(_bytes_of(column, width), axis=1, bitorder="little")[:, :width]


@dataclass(frozen=True, kw_only=True)
class KernelTask:
    """A task as memory and arguments of a kernel.

    Parameters
    ----------
    images : mapping of str to ndarray of uint8
        Contents of memory by the argument that points to them.
    result_bytes : int
        Room for the results, the header first.
    arguments : mapping of str to int
        Values of all registers except pointers.
    """

    images: Mapping[str, np.ndarray]
    result_bytes: int
    arguments: Mapping[str, int]


def read_header(table: Mapping[str, Any], word: np.ndarray) -> tuple[dict[str, int], bool]:
    """Fields of a result header, and whether the task paused.

    Parameters
    ----------
    table : mapping
        The kernel's exported table.
    word : ndarray of uint8
        Bytes of the header.

    Raises
    ------
    DeviceError
        The task ended with a status that has no result.
    """
    header = header_fields(table, word)
    names = {code: name for name, code in table["status"].items()}
    status = names.get(header["status"], str(header["status"]))
    if status not in _GOOD:
        raise DeviceError(f"the kernel ended the task with status {status}")
    return header, status == "PAUSED"


def truth_table(table: int, tests: int, built: int, name: str) -> dict[str, int]:
    """Registers of a truth table in a kernel with as many tests or more.

    Tests that the program lacks do not matter.

    Parameters
    ----------
    table : int
        The program's truth table, of ``tests`` tests.
    tests, built : int
        Tests of the program, and of the kernel.
    name : str
        Prefix of the registers' names.
    """
    mask, entries = (1 << tests) - 1, 1 << built
    value = sum((table >> (index & mask) & 1) << index for index in range(entries))
    return {f"{name}_{word}": value >> 32 * word & 0xFFFFFFFF for word in range(-(-entries // 32))}
