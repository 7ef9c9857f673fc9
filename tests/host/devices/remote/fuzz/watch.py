"""What must not happen while messages are fuzzed: secrets that leak, bugs, memory that grows."""

from __future__ import annotations

import ctypes
import gc
import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

#: An int64 that only windows of other clients hold.
SECRET = 0x5EC4_E75E_C4E7_5EC4
_BYTES = np.int64(SECRET).tobytes()
#: Bytes by which memory may grow.
MOST_GROWTH = 64 << 20


class LeakError(AssertionError):
    """A message holds bytes of another client's window."""


def check_secret(header: object, columns: Sequence[np.ndarray]) -> None:
    """Fail if a message tells what only another client's window holds."""
    if str(SECRET) in repr(header):
        raise LeakError(f"an answer holds another client's value: {header!r:.500}")
    for column in columns:
        text = (
            b"".join((int(v) & ((1 << 128) - 1)).to_bytes(16, "little") for v in column)
            if column.dtype == object
            else column.tobytes()
        )
        if _BYTES in text:
            raise LeakError(f"a column of {column.dtype} holds another client's value")


class Bugs(logging.Handler):
    """Exceptions that a server logs because nobody foresaw them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._seen = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        trace = self._seen.formatException(record.exc_info) if record.exc_info else ""
        self.found.append(f"{record.getMessage()}\n{trace}")

    def __enter__(self) -> Bugs:
        logging.getLogger("penstock").addHandler(self)
        return self

    def __exit__(self, *exc: object) -> None:
        logging.getLogger("penstock").removeHandler(self)


def resident_bytes(process: int | str = "self") -> int:
    """Memory of a process, once what is free was given back if it is this one."""
    if process == "self":
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise AssertionError(f"there is no process {process}")
