"""Sorted runs of rows in memory that all workers of a host share: one writes, the others map.

Without keys, all workers take the same steps with the same rows. The first worker to need a run
(the rows of a step, or blocks that are merged) writes it into memory without a name; the others
map it, and have no copy. Nothing depends on sharing: a worker that would wait too long for another
makes a run of its own.
"""

from __future__ import annotations

import mmap
import os
import secrets
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from penstock.errors import DeviceError

from ...channel.atomics import add_word, load_acquire, replace_word, store_release
from ...device.fields import MalformedError
from ...wire.sealed import create_mapped, map_memory, sealed_size

#: Bytes of a run below which each worker makes its own: mapping one takes some 0.1 ms.
LEAST_BYTES = 1 << 18
#: Runs that the board has room for.
_RUNS = 64
#: Words of the board: its token, and for each run its number, the number again once it is written,
#: process and descriptor, bytes, and the number of workers that have it.
_HEAD, _NUMBER, _WRITTEN, _FILE, _BYTES, _TAKEN, _WORDS = 8, 0, 1, 2, 3, 4, 8
#: Head of a run's memory: the board's token, the run's number, and zeros.
_MARK = struct.Struct("<QQ48x")
#: Seconds that a worker waits for another one to write a run, and between two looks.
_PATIENCE_S, _LOOK_S = 1.0, 0.0002


@dataclass(frozen=True)
class SortedRun:
    """A table of sorted rows, in this worker's memory or mapped from another's.

    Parameters
    ----------
    table : pyarrow.Table
    is_own : bool
        Whether this worker counts their memory as its own.
    """

    table: pa.Table
    is_own: bool = True

    def has(self, array: np.ndarray) -> bool:
        """Whether an array lies in the memory of the rows."""
        at = array.__array_interface__["data"][0]
        chunks = (chunk for column in self.table.columns for chunk in column.chunks)
        buffers = (one for chunk in chunks for one in chunk.buffers() if one is not None)
        return any(one.address <= at < one.address + one.size for one in buffers)


class Runs(Protocol):
    """Maker of sorted runs."""

    def run(self, number: int, rows: int, make: Callable[[], pa.Table]) -> SortedRun:
        """Return a run, made here or by another worker.

        Parameters
        ----------
        number : int
            From 1 on, ascending.
        rows : int
            How many rows it has.
        make : callable
            Makes the run's table.
        """
        ...


class OwnRuns:
    """Maker of runs that shares none."""

    def run(self, number: int, rows: int, make: Callable[[], pa.Table]) -> SortedRun:
        return SortedRun(make())


def create_board() -> int:
    """Make the board in shared memory that lists the runs of a host; returns its descriptor.

    Raises
    ------
    DeviceError
        There is no memory or descriptor for it.
    """
    size = 8 * (_HEAD + _RUNS * _WORDS)
    file, memory = create_mapped("penstock-runs", size, "shared memory for the workers")
    memory.view(np.uint64)[0] = secrets.randbits(63)
    return file


class HostRuns:
    """Maker of runs that the workers of one host share.

    Parameters
    ----------
    board : int
        Descriptor from :func:`create_board`, which may be closed afterwards.
    count : int
        Workers that have the board, this one among them.
    patience_s : float
        Seconds to wait for another worker to write a run.
    """

    def __init__(self, board: int, count: int, patience_s: float = _PATIENCE_S) -> None:
        self._words = map_memory(board, sealed_size(board)).view(np.uint64)
        self._token = int(self._words[0])
        self._count, self._patience_s = count, patience_s
        #: Descriptors of the runs that this worker has written, by number.
        self._written: dict[int, int] = {}

    def run(self, number: int, rows: int, make: Callable[[], pa.Table]) -> SortedRun:
        """Return a run: write it if this worker is the first to need it, else map it.

        Raises
        ------
        MalformedError
            Another worker has other rows for the same step.
        """
        self._let_go()
        at = _HEAD + number % _RUNS * _WORDS
        seen = int(load_acquire(self._words, at + _NUMBER))
        if seen < number and replace_word(self._words, at + _NUMBER, seen, number):
            return self._write(at, number, make())
        return self._map(at, number, rows) or SortedRun(make())

    # The writer.

    def _write(self, at: int, number: int, table: pa.Table) -> SortedRun:
        """Write a run into shared memory, and enter it on the board; size 0 if it is not shared."""
        words, file, size = self._words, -1, 0
        if table.nbytes >= LEAST_BYTES:
            with suppress(DeviceError):  # no memory or descriptors for it: each has its own
                file, size, table = _written(self._token, number, table)
        words[at + _FILE], words[at + _BYTES] = os.getpid() << 32 | max(file, 0), size
        words[at + _TAKEN] = 1
        store_release(words, at + _WRITTEN, number)
        if file >= 0:
            self._written[number] = file
        return SortedRun(table)

    def _let_go(self) -> None:
        """Close descriptors of runs that all workers have, or whose slot on the board is reused."""
        for number, file in list(self._written.items()):
            at = _HEAD + number % _RUNS * _WORDS
            is_old = int(load_acquire(self._words, at + _NUMBER)) != number
            if is_old or int(load_acquire(self._words, at + _TAKEN)) >= self._count:
                os.close(file)
                del self._written[number]

    def close(self) -> None:
        """Close all descriptors; mapped runs stay."""
        for file in self._written.values():
            os.close(file)
        self._written = {}

    # The readers.

    def _map(self, at: int, number: int, rows: int) -> SortedRun | None:
        """Return a run that another worker has written; None if it is not shared."""
        words, deadline = self._words, time.monotonic() + self._patience_s
        while (written := int(load_acquire(words, at + _WRITTEN))) < number:
            if time.monotonic() > deadline:
                return None
            time.sleep(_LOOK_S)
        where, size = int(words[at + _FILE]), int(words[at + _BYTES])
        if written != number or int(load_acquire(words, at + _NUMBER)) != number:
            return None
        table = None
        if size:
            table = _mapped(where >> 32, where & 0xFFFFFFFF, size, self._token, number)
        add_word(words, at + _TAKEN, 1)
        if table is None:
            return None
        if table.num_rows != rows:
            raise MalformedError(
                f"two workers have {table.num_rows} and {rows} rows for the same step; start all "
                "workers again from the last record"
            )
        return SortedRun(table, is_own=False)


def _written(token: int, number: int, table: pa.Table) -> tuple[int, int, pa.Table]:
    """Write rows into new shared memory; returns its descriptor, its size, and the rows in it."""
    counted = pa.MockOutputStream()
    _stream(counted, table)
    size = _MARK.size + counted.size()
    file, memory = create_mapped(f"penstock-run-{number}", size, f"shared memory of {size:,} bytes")
    _MARK.pack_into(memory.data, 0, token, number)
    _stream(pa.FixedSizeBufferWriter(pa.py_buffer(memory[_MARK.size :])), table)
    return file, size, _read(memory)


def _stream(sink: pa.NativeFile, table: pa.Table) -> None:
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())


def _mapped(process: int, file: int, size: int, token: int, number: int) -> pa.Table | None:
    """Map the memory of another process; returns its rows, or None if it is gone."""
    try:
        descriptor = os.open(f"/proc/{process}/fd/{file}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if sealed_size(descriptor) != size:
            return None
        memory = np.frombuffer(mmap.mmap(descriptor, size, prot=mmap.PROT_READ), np.uint8)
    except (MalformedError, OSError, ValueError):  # the number is another file's by now
        return None
    finally:
        os.close(descriptor)
    return _read(memory) if _MARK.unpack_from(memory.data) == (token, number) else None


def _read(memory: np.ndarray) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(memory[_MARK.size :])) as reader:
        return reader.read_all()
