"""Polars: ``join_where``, an equi-join with a filter, a grid by hand, and for counts ASOF joins."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from itertools import product

import pyarrow as pa

from bench.peers.join import THREADS, Band, Join

# Polars reads it once, when it is first imported.
os.environ.setdefault("POLARS_MAX_THREADS", str(THREADS))

#: Most pairs that ``join_where`` or a hash join looks at within about 20 s, by how it finds them.
MOST_PAIRS = {"loop": 7_000_000_000, "keys": 1_000_000_000, "ranges": 50_000_000}

#: Bits of all numbers of a cell.
_CELL_BITS = 60


def contenders(join: Join) -> dict[str, Callable[[], pa.Table] | str]:
    """Calls by name, or why one is left out."""
    name = "Polars, hash join" if join.keys else "Polars, join_where"
    found: dict[str, Callable[[], pa.Table] | str] = {}
    if join.comparisons == 2 or join.candidates <= MOST_PAIRS[join.found_by]:
        found[name] = lambda: _collected(join, hash_join if join.keys else join_where)
    else:
        found[name] = f"{join.candidates:.1e} pairs take more than 20 s"
    for name, cells in join.grids.items():
        found[f"Polars, {name}"] = lambda cells=cells: _collected(join, partial(grid, bands=cells))
    if join.count and join.keys and not join.on:
        found["Polars, ASOF"] = lambda: _collected(join, asof)
    return found


def join_where(join: Join):
    """A join on conditions alone, the window's first."""
    left, right = _sides(join)
    return left.join_where(right, *_conditions(join))


def hash_join(join: Join):
    """An ordinary join on the keys, then a filter."""
    left, right = _sides(join)
    return _filtered(join, left, right, [])


def grid(join: Join, bands: tuple[Band, ...]):
    """Cells twice as wide as a band reaches; the smaller side has a row per cell it overlaps."""
    import polars as pl

    left_is_smaller = join.left.num_rows <= join.right.num_rows
    sides = []
    frames = _sides(join)
    for frame, prefix, repeats in zip(
        frames, ("", "r_"), (left_is_smaller, not left_is_smaller), strict=True
    ):
        columns = {name: pl.col(prefix + name) for name in _names(join, prefix)}
        cells = []
        for band in bands:
            shift = (-band.high if prefix else band.low) if repeats else 0
            value = band.of(columns).cast(pl.Int64) - (join.base(band) - shift)
            cells.append(value // band.width)
        bits = _CELL_BITS // len(cells)
        packed = cells[0]
        for cell in cells[1:]:
            packed = packed * (1 << bits) + cell
        frame = frame.with_columns(packed.alias(prefix + "cell"))
        if repeats:
            steps = [
                sum(step << (bits * k) for k, step in enumerate(reversed(each)))
                for each in product((0, 1), repeat=len(cells))
            ]
            frame = pl.concat([frame.with_columns(pl.col(prefix + "cell") + s) for s in steps])
        sides.append(frame)
    return _filtered(join, sides[0], sides[1], ["cell"])


def asof(join: Join):
    """Counts as differences of ranks: how many rows lie up to each end of a row's interval."""
    import polars as pl

    (low, high), (key,) = join.interval or (0, 0), join.keys
    left = pl.DataFrame(join.left).select("id", key, "t")
    rank = pl.int_range(1, pl.len() + 1).over(key)
    ranked = pl.DataFrame(join.right).select(key, "t", rank=rank)
    ranks = []
    for reach in (low - 1, high):
        ends = left.with_columns(t=pl.col("t") + reach)
        found = ends.join_asof(ranked, on="t", by=key, check_sortedness=False)
        ranks.append(found["rank"].fill_null(0))
    counts = pl.DataFrame({"i": left["id"], "n": ranks[1] - ranks[0]})
    return counts.lazy().filter(pl.col("n") > 0)


def _names(join: Join, prefix: str) -> list[str]:
    return (join.right if prefix else join.left).column_names


def _sides(join: Join):
    import polars as pl

    left, right = (pl.DataFrame(table).lazy() for table in join.with_places())
    return left, right.select(pl.all().name.prefix("r_"))


def _conditions(join: Join) -> list:
    import polars as pl

    left = {name: pl.col(name) for name in join.left.column_names}
    right = {name: pl.col("r_" + name) for name in join.right.column_names}
    conditions = []
    if join.interval is not None:
        low, high = join.interval
        conditions += [right["t"] >= left["t"] + low, right["t"] <= left["t"] + high]
    if join.rows is not None:
        place = pl.col("r_place")
        conditions += [place >= pl.col("first"), place < pl.col("stop")]
    if join.test is not None:
        conditions.append(join.test(left, right))
    return conditions


def _filtered(join: Join, left, right, more: list[str]):
    import polars as pl

    names = [*join.keys, *more]
    joined = left.join(
        right, left_on=names, right_on=["r_" + name for name in names], coalesce=False
    )
    conditions = _conditions(join)
    return joined.filter(pl.all_horizontal(conditions)) if conditions else joined


def _collected(join: Join, form: Callable) -> pa.Table:
    import polars as pl

    rows = form(join)
    if form is not asof:
        if join.count:
            rows = rows.group_by(pl.col("id").alias("i")).agg(pl.len().alias("n"))
        else:
            rows = rows.select(pl.col("id").alias("i"), pl.col("r_id").alias("j"))
    return rows.collect(engine="streaming").to_arrow()
