"""Window keys in main memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.errors import DeviceError
from penstock.host.device.base import WindowBuffer
from penstock.host.device.cpu.vector import GRANULE

#: Window positions are written into results as uint32.
MAX_CAPACITY = (1 << 32) - 1


class CpuWindow(WindowBuffer):
    """One contiguous array per window key.

    Parameters
    ----------
    capacity : int
        Window tuples that fit.
    dtypes : sequence of dtype
        One per window key.
    """

    def __init__(self, capacity: int, dtypes: Sequence[np.dtype]) -> None:
        super().__init__(capacity)
        if not 0 <= capacity <= MAX_CAPACITY:
            raise DeviceError(
                f"a window of {capacity} tuples was asked of device cpu, which holds 0 to "
                f"{MAX_CAPACITY}; split the window into runs"
            )
        try:
            # Kernels read whole granules, so the last one may reach past the capacity.
            self._columns: tuple[np.ndarray, ...] | None = tuple(
                np.zeros(capacity + GRANULE, dtype) for dtype in dtypes
            )
        except MemoryError as cause:
            raise DeviceError(
                f"no memory for a window of {capacity} tuples of {len(dtypes)} keys on device "
                "cpu; use smaller runs or free other windows"
            ) from cause

    @property
    def columns(self) -> tuple[np.ndarray, ...]:
        """The arrays, a granule longer than the capacity.

        Raises
        ------
        DeviceError
            The buffer was freed.
        """
        if self._columns is None:
            raise DeviceError(
                f"the window buffer of {self.capacity} tuples on device cpu was freed; allocate "
                "another one"
            )
        return self._columns

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self._columns or ())

    def write(self, offset: int, columns: Sequence[np.ndarray]) -> None:
        own = self.columns
        if len(columns) != len(own):
            raise DeviceError(
                f"{len(columns)} key columns were written to a window of {len(own)} on device "
                "cpu; pass one array per window key of the program"
            )
        rows = {len(column) for column in columns}
        if len(rows) != 1:
            raise DeviceError(
                f"window key columns have the lengths {sorted(rows)}; pass arrays of one length"
            )
        count = rows.pop()
        if offset < 0 or offset + count > self.capacity:
            raise DeviceError(
                f"{count} rows at offset {offset} do not fit a window of {self.capacity} tuples "
                "on device cpu; allocate a larger window or write fewer rows"
            )
        for target, column in zip(own, columns, strict=True):
            if not np.can_cast(column.dtype, target.dtype, casting="safe"):
                raise DeviceError(
                    f"a window key column of {column.dtype} was written where the program has "
                    f"{target.dtype}; convert it first"
                )
            target[offset : offset + count] = column

    def free(self) -> None:
        self._columns = None
