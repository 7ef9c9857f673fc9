"""Pruning in tests, whose joins are small."""

from __future__ import annotations

from penstock.host.prune.sizes import Pruning

#: Looks at every probe; the bounds of a block or a group are those of one or two tuples.
TINY = Pruning(
    least_pairs=1, pairs_per_row=0, slab_rows=(2, 8), block_rows=2, chunk_rows=8, group_rows=1
)
