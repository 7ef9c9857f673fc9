"""Files of a store that are read by ranges of bytes."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod

import numpy as np
import pyarrow as pa
from numba import types
from numba.core.types import ExternalFunction

from penstock.kept_code import kept

_pread = ExternalFunction("pread", types.intp(types.intc, types.voidptr, types.uintp, types.int64))


def read_stretches(
    descriptor: int, out: np.ndarray, places: np.ndarray, lengths: np.ndarray, offsets: np.ndarray
) -> int:
    """Read stretches of a file; other threads run meanwhile.

    Parameters
    ----------
    descriptor : int
        Of the file.
    out : ndarray of uint8
    places, lengths, offsets : ndarray of int64, shape (stretches,)
        Where each goes in ``out``, how long it is, and where it is in the file.

    Returns
    -------
    int
        How many were read whole before one was not: the end of the file, a signal, an error.
    """
    return _read(descriptor, out, places, lengths, offsets)


@kept()
def _read(descriptor, out, places, lengths, offsets):
    for k in range(len(places)):
        if _pread(descriptor, out[places[k] :].ctypes, lengths[k], offsets[k]) != lengths[k]:
            return k
    return len(places)


class RangeReader(ABC):
    """A file of a store, read by ranges of bytes; several threads may read at once.

    It is not mapped into memory: bytes that are read belong to the caller, and a file that has
    become shorter gives fewer bytes.
    """

    @abstractmethod
    def read_into(self, out: memoryview, offset: int) -> int:
        """Read bytes from this offset on; returns how many: fewer if the file ends before.

        Raises
        ------
        OSError
        """

    def read_stretches(
        self, out: np.ndarray, places: np.ndarray, lengths: np.ndarray, offsets: np.ndarray
    ) -> int | None:
        """Read many ranges.

        Parameters
        ----------
        out : ndarray of uint8
        places, lengths, offsets : ndarray of int64, shape (ranges,)
            Where each goes in ``out``, how long it is, and where it begins in the file.

        Returns
        -------
        int or None
            Where the file ends, if a range lies behind.

        Raises
        ------
        OSError
        """
        stretches = zip(places.tolist(), lengths.tolist(), offsets.tolist(), strict=True)
        for place, length, offset in stretches:
            count = self.read_into(out.data[place : place + length], offset)
            if count < length:
                return offset + count
        return None

    @abstractmethod
    def close(self) -> None:
        """Close the file."""


class FileRanges(RangeReader):
    """A file in a folder."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115

    def read_into(self, out: memoryview, offset: int) -> int:
        done, descriptor = 0, self._file.fileno()
        while done < len(out):
            count = os.preadv(descriptor, [out[done:]], offset + done)
            if count == 0:
                break
            done += count
        return done

    def read_stretches(
        self, out: np.ndarray, places: np.ndarray, lengths: np.ndarray, offsets: np.ndarray
    ) -> int | None:
        # What a signal or an error has cut short is read again by Python, which explains it.
        done = read_stretches(self._file.fileno(), out, places, lengths, offsets)
        return super().read_stretches(out, places[done:], lengths[done:], offsets[done:])

    def close(self) -> None:
        self._file.close()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self.close()


class ObjectRanges(RangeReader):
    """An object, as pyarrow has opened it."""

    def __init__(self, file: pa.NativeFile) -> None:
        self._file = file

    def read_into(self, out: memoryview, offset: int) -> int:
        content = self._file.read_at(len(out), offset)
        out[: len(content)] = content
        return len(content)

    def close(self) -> None:
        self._file.close()
