"""Many short reads of one file, without the interpreter between them."""

from __future__ import annotations

import numpy as np
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
