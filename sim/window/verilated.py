"""Runs of the window join's Verilog, from arrays of tuples to arrays of results."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files

import numpy as np
from amaranth.lib import data

from penstock.errors import DeviceError
from penstock.hw.window.config import WindowConfig
from penstock.hw.window.export import TOP, export
from penstock.hw.window.layout import (
    Side,
    counters_layout,
    table_layout,
    tuple_layout,
    word_layout,
)

from ..verilated.compile_kernel import cache_folder, library, load

#: Stands for the cycle of an event that did not happen.
NEVER = (1 << 64) - 1

_U64 = ctypes.c_uint64
_BYTES = ctypes.POINTER(ctypes.c_uint8)
_CYCLES = ctypes.POINTER(_U64)


class _Job(ctypes.Structure):
    _fields_ = (
        ("count", _U64 * 2),
        ("due", _CYCLES * 2),
        ("data", _BYTES * 2),
        ("entries", _U64),
        ("entry", _BYTES),
        *((name, _U64) for name in ("rows_a", "rows_b", "before", "after", "shed")),
        ("fill", _U64),
        ("stalls", ctypes.c_double),
        ("seed", _U64),
        ("limit", _U64),
        ("arrived", _CYCLES * 2),
        ("admitted", _CYCLES * 2),
        ("results", _BYTES),
        ("room", _U64),
        ("counters", _BYTES),
        *((name, _U64) for name in ("words", "cycles", "idle", "waits")),
    )


@dataclass(frozen=True)
class Stream:
    """Tuples of a side.

    Parameters
    ----------
    due : array of int
        Cycle from which each is offered, not decreasing.
    columns : mapping of str to array
        Fields of :func:`penstock.hw.window.layout.tuple_layout`. A key of up to 64 bits, a time and
        a payload are one-dimensional; ``window`` and ``probe`` have the codes of a tuple in a row.
    """

    due: np.ndarray
    columns: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Outcome:
    """Result of a run.

    Parameters
    ----------
    arrived, admitted : dict of Side to array of uint64
        Cycle in which the input took a tuple, and in which it was written into its queue; NEVER
        if it did not.
    a, b, later : array
        Results in the order in which they left: both payloads, and the side of the later tuple.
    cycles : int
        Length of the run.
    finished : bool
        All tuples were taken and all results had left; else it ended at the limit.
    waits : int
        Cycles in which a match unit waited for the output.
    counters : dict of str to int
        :func:`penstock.hw.window.layout.counters_layout`, as the operator counted.
    """

    arrived: dict[Side, np.ndarray]
    admitted: dict[Side, np.ndarray]
    a: np.ndarray
    b: np.ndarray
    later: np.ndarray
    cycles: int
    finished: bool
    waits: int
    counters: dict[str, int]

    def order(self) -> list[tuple[Side, int]]:
        """Side and index of the admitted tuples by cycle of their queue write, A before B."""
        events = [
            (int(cycle), side.value, index)
            for side, cycles in self.admitted.items()
            for index, cycle in enumerate(cycles)
            if cycle != NEVER
        ]
        return [(Side(side), index) for _, side, index in sorted(events)]


class VerilatedJoin:
    """A window join compiled by Verilator; each run starts from reset.

    Parameters
    ----------
    config : WindowConfig
        The build; payloads have 64 bits at most.
    """

    def __init__(self, config: WindowConfig) -> None:
        if max(config.payload_bits) > 64:
            raise ValueError(f"payloads must have 64 bits at most, not {config.payload_bits!r}")
        self.config = config

    @cached_property
    def _library(self) -> ctypes.CDLL:
        verilog = export(self.config, cache=cache_folder())
        harness = files("penstock.sim.window").joinpath("harness.cpp").read_text(encoding="utf-8")
        made = load(library(verilog, TOP, harness))
        made.window_run.argtypes, made.window_run.restype = [ctypes.POINTER(_Job)], ctypes.c_int
        made.window_sizes.argtypes, made.window_sizes.restype = [ctypes.c_int], ctypes.c_uint
        return made

    def run(
        self,
        streams: Mapping[Side, Stream],
        *,
        rows: tuple[int, int],
        limit: int,
        room: int,
        shed: bool = False,
        before: int = 0,
        after: int = 0,
        tables: Sequence[int] = (0, 0),
        stalls: float = 0.0,
        seed: int = 0,
        fill: int = 0,
    ) -> Outcome:
        """Run streams through the operator.

        Parameters
        ----------
        streams : mapping of Side to Stream
        rows : (int, int)
            Sizes of the windows over A and over B.
        limit : int
            Cycles after which the run ends in any case.
        room : int
            Most words of results.
        shed : bool
            The policy.
        before, after : int
            The time window, in builds with timestamps.
        tables : two ints
            Truth tables by which tuples of A and of B are matched, in band builds.
        stalls : float
            Share of cycles, drawn at random, in which the output takes nothing.
        seed : int
            Seed of that.
        fill : int
            Cycles in which both windows are empty, to fill large queues quickly: two cycles per
            tuple of each side.

        Raises
        ------
        DeviceError
            The operator breaks a rule of its output stream, or gives more words than ``room``.
        """
        config, job = self.config, _Job()
        kept: list[np.ndarray] = []

        def pointer(array: np.ndarray, kind: type) -> ctypes._Pointer:
            kept.append(array)
            return array.ctypes.data_as(kind)

        marks = {}
        for side in Side:
            stream = streams[side]
            due = np.ascontiguousarray(stream.due, np.uint64)
            count = job.count[side.value] = len(due)
            packed = pack(tuple_layout(config, side), stream.columns, count)
            job.due[side.value] = pointer(due, _CYCLES)
            job.data[side.value] = pointer(packed, _BYTES)
            marks[side] = [np.full(count, NEVER, np.uint64) for _ in range(2)]
            job.arrived[side.value] = pointer(marks[side][0], _CYCLES)
            job.admitted[side.value] = pointer(marks[side][1], _CYCLES)
        if config.is_band:
            entries = self._entries(tables)
            job.entries, job.entry = len(entries), pointer(entries, _BYTES)
        words = np.zeros((max(room, 1), self._library.window_sizes(2)), np.uint8)
        job.results, job.room = pointer(words, _BYTES), room
        layout = counters_layout(config)
        counters = np.zeros((1, _stored_bytes(layout.size)), np.uint8)
        job.counters = pointer(counters, _BYTES)
        job.rows_a, job.rows_b = rows
        job.before, job.after, job.shed = before, after, shed
        job.stalls, job.seed, job.limit, job.fill = stalls, seed, limit, fill
        if not self._library.window_run(ctypes.byref(job)):
            raise DeviceError(
                f"the operator took back a result, or gave more than {room} words of them"
            )
        a, b, later = self._results(words[: job.words])
        return Outcome(
            {side: marks[side][0] for side in Side},
            {side: marks[side][1] for side in Side},
            a,
            b,
            later,
            job.cycles,
            bool(job.idle),
            job.waits,
            _numbers(layout, counters),
        )

    def _entries(self, tables: Sequence[int]) -> np.ndarray:
        size = 1 << self.config.tests
        index = np.tile(np.arange(size), 2)
        value = [tables[side.value] >> entry & 1 for side in Side for entry in range(size)]
        columns = {"index": index, "value": np.array(value), "side": np.repeat([0, 1], size)}
        return pack(table_layout(self.config), columns, 2 * size)

    def _results(self, words: np.ndarray) -> Iterable[np.ndarray]:
        """Payloads and side of each result, words in order and places in a word in order."""
        layout = word_layout(self.config)
        bits = np.unpackbits(words, axis=1, bitorder="little")
        present = bits[:, layout["present"].offset :][:, : self.config.outputs].astype(bool)
        places: data.ArrayLayout = layout["results"].shape  # pyright: ignore
        result: data.StructLayout = places.elem_shape  # pyright: ignore
        for name in ("a", "b", "later"):
            columns = [
                _number(bits, places[place].offset + result[name].offset, result[name].width)
                for place in range(self.config.outputs)
            ]
            yield np.stack(columns, axis=1)[present]


def pack(layout: data.StructLayout, columns: Mapping[str, np.ndarray], count: int) -> np.ndarray:
    """Structures as Verilator stores them, one per row.

    Parameters
    ----------
    layout : StructLayout
    columns : mapping of str to array
        A field's value per structure, or its elements' values in a row.
    count : int
        Number of structures.
    """
    if count == 0:
        return np.zeros((0, _stored_bytes(layout.size)), np.uint8)
    bits = np.zeros((count, 8 * _stored_bytes(layout.size)), np.uint8)
    for name, field in layout:
        values = np.asarray(columns[name]).astype(np.uint64).reshape(count, -1)
        parts = values.shape[1]
        width = field.width // parts
        for part in range(parts):
            for bit in range(width):
                place = field.offset + part * width + bit
                bits[:, place] = values[:, part] >> np.uint64(bit) & np.uint64(1) if bit < 64 else 0
    return np.packbits(bits, axis=1, bitorder="little")


def _stored_bytes(bits: int) -> int:
    """Bytes of a port in Verilator's types."""
    for size in (1, 2, 4, 8):
        if bits <= 8 * size:
            return size
    return 4 * -(-bits // 32)


def _numbers(layout: data.StructLayout, stored: np.ndarray) -> dict[str, int]:
    """Fields of one structure."""
    bits = np.unpackbits(stored, axis=1, bitorder="little")
    return {name: int(_number(bits, field.offset, field.width)[0]) for name, field in layout}


def _number(bits: np.ndarray, offset: int, width: int) -> np.ndarray:
    weights = np.uint64(1) << np.arange(width, dtype=np.uint64)
    return bits[:, offset : offset + width].astype(np.uint64) @ weights
