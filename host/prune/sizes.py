"""How finely pruning works."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise

from penstock import arguments
from penstock.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Pruning:
    """Sizes for pruning; none of them changes a result.

    Parameters
    ----------
    least_pairs : int
        Fewest pairs of a probe to prune, for a device as fast as a CPU.
    pairs_per_row : int
        Pairs that must have come for each clustered row, stream tuples and window rows alike: with
        fewer, evaluating them takes less time than clustering. For a device as fast as a CPU; a
        slower one needs fewer, here and in ``least_pairs``.
    free_rows : int
        Rows to cluster before any pairs have come for them, some 0.1 s of work.
    slab_rows : tuple of int
        Sizes of the stretches of a window that are clustered, ascending, each a multiple of the one
        before.
    block_rows : int
        Window tuples with common bounds; the smallest slab is a multiple of it.
    chunk_rows : int
        Stream tuples that are clustered together.
    group_rows : int
        Stream tuples with common bounds.
    """

    least_pairs: int = 1 << 22
    pairs_per_row: int = 4096
    free_rows: int = 1 << 16
    slab_rows: tuple[int, ...] = (4096, 32768)
    block_rows: int = 256
    chunk_rows: int = 16384
    group_rows: int = 32

    def __post_init__(self) -> None:
        for name in (own.name for own in fields(self) if own.name != "slab_rows"):
            arguments.whole(name, getattr(self, name), least=-arguments.MOST)
        if not isinstance(self.slab_rows, tuple):
            raise arguments.refuse("slab_rows", "a tuple of whole numbers", self.slab_rows)
        for size in self.slab_rows:
            arguments.whole("each of slab_rows", size, least=-arguments.MOST)
        steps = (self.block_rows, *self.slab_rows)
        sizes = (*steps, self.chunk_rows, self.group_rows, self.least_pairs)
        if not self.slab_rows or min(sizes) < 1:
            raise UsageError("sizes of pruning must be at least 1, and there must be a slab")
        if self.pairs_per_row < 0:
            raise UsageError(f"pairs_per_row must not be negative, not {self.pairs_per_row!r}")
        if any(large % small for small, large in pairwise(steps)):
            raise UsageError(
                f"each of block_rows and slab_rows must divide the next, not {steps!r}"
            )


#: The default.
DEFAULT_PRUNING = Pruning()


def pruning_sizes(pruning: bool | Pruning) -> Pruning | None:
    """Sizes from a caller's True, False or sizes; None leaves every probe as it is."""
    if isinstance(pruning, bool):
        return DEFAULT_PRUNING if pruning else None
    return arguments.instance(Pruning, "True, False or a penstock.Pruning")("pruning", pruning)
