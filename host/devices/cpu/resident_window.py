"""Window keys in main memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from penstock.errors import DeviceError

from ...device.base import WindowBuffer
from ...device.checks import check_capacity, check_write
from .narrowed import NarrowColumns
from .vector import GRANULE


class CpuWindow(WindowBuffer):
    """One contiguous array per window key.

    Parameters
    ----------
    capacity : int
        Window tuples that fit.
    dtypes : sequence of dtype
        One per window key.
    narrow : callable, optional
        Makes room for narrow codes of so many rows.
    """

    def __init__(
        self,
        capacity: int,
        dtypes: Sequence[np.dtype],
        narrow: Callable[[int], NarrowColumns] | None = None,
    ) -> None:
        super().__init__(capacity)
        check_capacity(capacity)
        try:
            # Kernels read whole granules, so the last one may reach past the capacity.
            self._columns: tuple[np.ndarray, ...] | None = tuple(
                np.zeros(capacity + GRANULE, dtype) for dtype in dtypes
            )
            self.narrow = narrow(capacity) if narrow is not None else None
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
        narrow = self.narrow.nbytes if self.narrow is not None else 0
        return narrow + sum(column.nbytes for column in self._columns or ())

    def write(self, offset: int, columns: Sequence[np.ndarray]) -> None:
        targets = self.columns
        count = check_write(self, [column.dtype for column in targets], offset, columns)
        for target, column in zip(targets, columns, strict=True):
            target[offset : offset + count] = column
        if self.narrow is not None:
            self.narrow.wrote(offset, count)

    def free(self) -> None:
        self._columns = self.narrow = None
