"""Tasks of kernels of every sort: memory, arguments and result header."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.errors import DeviceError

from .packing import header_fields

#: Name of the argument that points to the results.
RESULTS = "results"
#: That of a window which stays in memory for several tasks.
WINDOW = "window"

#: Status codes of a task that has a result.
_GOOD = ("OK", "PAUSED")


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
