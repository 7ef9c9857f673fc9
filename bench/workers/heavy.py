"""A key with nine tenths of the rows, on workers: what a pair costs beside even keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from math import sqrt

import numpy as np
import pyarrow as pa

from bench.rows import Row
from bench.workers import theta

#: Most time of a pair over that of even keys.
MOST = 1.5
#: The key's share of both sides' rows, and keys that are even.
SHARE, EVEN = 0.9, 64
SIZE = 2
SQL = theta.SQL.replace("ON ", "ON a.k = b.k AND ")


def measure(rows: int, add: Callable[[Row], None]) -> None:
    """Add what a pair of a heavy key costs over one of even keys.

    Parameters
    ----------
    rows : int
        Of each side, where one key is heavy; even keys have more, and as many pairs.
    """
    heavy = {name: _side(rows, seed, SHARE) for seed, name in enumerate("ab")}
    many = round(rows * SHARE * sqrt(EVEN))
    even = {name: _side(many, seed, 0) for seed, name in enumerate("ab")}
    found = {
        name: theta.cost_of(SQL, tables, _pairs(tables), SIZE)
        for name, tables in (("heavy", heavy), ("even", even))
    }
    each = {name: own.seconds / own.evaluations for name, own in found.items()}
    over = each["heavy"] / each["even"]
    add(
        Row(
            f"time of a pair, a key with {SHARE:.0%} of {rows:,} rows a side over {EVEN} even keys",
            f"{over:.2f}x, {found['heavy'].evaluations / found['heavy'].seconds / 1e9:.2f} G/s",
            f"<= {MOST}x",
            over <= MOST,
            f"even {found['even'].evaluations / found['even'].seconds / 1e9:.2f} G/s",
            {"over": over, "costs": {name: asdict(own) for name, own in found.items()}},
        )
    )


def _side(rows: int, seed: int, share: float) -> pa.Table:
    """A side of the theta join, with keys: 0 with a share of the rows, the others even."""
    rng = np.random.default_rng(seed)
    keys = np.where(rng.random(rows) < share, 0, rng.integers(0, EVEN, rows))
    return theta.side(rows, seed).append_column("k", pa.array(keys))


def _pairs(tables: dict[str, pa.Table]) -> int:
    """Pairs of equal keys: all rows are in each other's window."""
    counts = [np.bincount(table["k"].to_numpy(), minlength=EVEN) for table in tables.values()]
    return int((counts[0] * counts[1]).sum())
