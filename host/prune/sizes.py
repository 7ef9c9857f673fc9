"""How finely pruning works."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from penstock import arguments
from penstock.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Pruning:
    """Thresholds of pruning; they change the speed, never a result.

    Parameters
    ----------
    least_pairs : int
        Fewest pairs of a probe to look for an order, for a device as fast as a CPU; a slower one
        needs fewer.
    free_rows : int
        Rows to sort before any pairs have come for them, some milliseconds of work.
    run_rows : tuple of int
        Rows of the slabs of a growing window that are sorted together, ascending, each a
        multiple of the one before. Young rows may be in slabs of the first one times a power of
        two. A table is sorted in slabs as long as its ranges.
    always : bool
        Whether to use an order wherever there is one, worth it or not; for tests.
    bands : bool
        Whether to sort by bounds that are no equalities, too.
    orders : tuple of str
        Orders to choose from: "cells", and "zones" for devices that search.

    Examples
    --------
    >>> penstock.sql(near, tables, time=time, pruning=penstock.Pruning(bands=False)).num_rows
    1
    """

    least_pairs: int = 1 << 24
    free_rows: int = 1 << 12
    run_rows: tuple[int, ...] = (4096, 32768, 262144)
    always: bool = False
    bands: bool = True
    orders: tuple[str, ...] = ("cells", "zones")

    @property
    def portion(self) -> int:
        """Stream tuples that are pruned at a time."""
        return max(self.run_rows[-1] // 4, 1)

    def __post_init__(self) -> None:
        for name in ("least_pairs", "free_rows"):
            arguments.whole(name, getattr(self, name), least=-arguments.MOST)
        for name in ("always", "bands"):
            arguments.instance(bool, "True or False")(name, getattr(self, name))
        if not isinstance(self.orders, tuple) or not {*self.orders} <= {"cells", "zones"}:
            raise arguments.refuse("orders", "a tuple of 'cells' and 'zones'", self.orders)
        if not isinstance(self.run_rows, tuple):
            raise arguments.refuse("run_rows", "a tuple of whole numbers", self.run_rows)
        for size in self.run_rows:
            arguments.whole("each of run_rows", size, least=-arguments.MOST)
        if not self.run_rows or min(*self.run_rows, self.least_pairs) < 1:
            raise UsageError("sizes of pruning must be at least 1, and there must be a run")
        if self.free_rows < 0:
            raise UsageError(f"free_rows must not be negative, not {self.free_rows!r}")
        if any(large % small for small, large in pairwise(self.run_rows)):
            raise UsageError(f"each of run_rows must divide the next, not {self.run_rows!r}")


#: The default.
DEFAULT_PRUNING = Pruning()


def pruning_sizes(pruning: bool | Pruning) -> Pruning | None:
    """Sizes from a caller's True, False or sizes; None leaves every probe as it is."""
    if isinstance(pruning, bool):
        return DEFAULT_PRUNING if pruning else None
    return arguments.instance(Pruning, "True, False or a penstock.Pruning")("pruning", pruning)
