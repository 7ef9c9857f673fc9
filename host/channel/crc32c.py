"""CRC-32C (Castagnoli), the checksum of iSCSI and of most networks' messages."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.kept_code import kept

#: The polynomial, reflected.
_POLYNOMIAL = 0x82F63B78
#: Bytes per step: one table for each.
_STEP = 8


def _tables() -> np.ndarray:
    """Build the tables: remainder of each byte at each distance, shape (8, 256), uint32."""
    tables = np.zeros((_STEP, 256), np.uint32)
    first = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        first = (first >> 1) ^ np.where(first & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    tables[0] = first
    for k in range(1, _STEP):
        tables[k] = (tables[k - 1] >> 8) ^ first[tables[k - 1] & 0xFF]
    return tables


_TABLES = _tables()


@kept()
def _update(data, tables, crc):
    n = len(data)
    crc = np.uint32(crc ^ np.uint32(0xFFFFFFFF))
    whole = n - n % 8
    for i in range(0, whole, 8):
        low = crc ^ (
            np.uint32(data[i])
            | np.uint32(data[i + 1]) << np.uint32(8)
            | np.uint32(data[i + 2]) << np.uint32(16)
            | np.uint32(data[i + 3]) << np.uint32(24)
        )
        crc = np.uint32(
            tables[7, low & 0xFF]
            ^ tables[6, (low >> np.uint32(8)) & 0xFF]
            ^ tables[5, (low >> np.uint32(16)) & 0xFF]
            ^ tables[4, (low >> np.uint32(24)) & 0xFF]
            ^ tables[3, data[i + 4]]
            ^ tables[2, data[i + 5]]
            ^ tables[1, data[i + 6]]
            ^ tables[0, data[i + 7]]
        )
    for i in range(whole, n):
        crc = np.uint32((crc >> np.uint32(8)) ^ tables[0, (crc ^ np.uint32(data[i])) & 0xFF])
    return np.uint32(crc ^ np.uint32(0xFFFFFFFF))


def crc32c(data: Any, crc: int = 0) -> int:
    """Compute the CRC-32C of bytes, continuing from ``crc``.

    Parameters
    ----------
    data : buffer
        Contiguous bytes.
    crc : int
        Checksum of the bytes before; 0 if there are none.
    """
    return int(_update(np.frombuffer(data, np.uint8), _TABLES, np.uint32(crc)))
