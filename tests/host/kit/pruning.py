"""Pruning in tests, whose joins are small."""

from __future__ import annotations

from penstock.host.prune.sizes import Pruning

#: Looks at every probe, and sorts stretches of a few rows.
TINY = Pruning(least_pairs=1, run_rows=(2, 8), always=True)
