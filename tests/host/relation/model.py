"""A relation as a plain list of rows, which the stored one is compared with."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.host.relation import FolderRelation, Version


def plain(value: Any) -> Any:
    """A value that is equal to another one where keys are: one NaN, no -0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, list):
        return tuple(plain(one) for one in value)
    return value


def row_list(rows: pa.Table | pa.RecordBatch) -> list[tuple]:
    columns = [[plain(v) for v in rows.column(n).to_pylist()] for n in range(rows.num_columns)]
    return list(zip(*columns, strict=True))


class Model:
    """Rows of each version."""

    def __init__(self, rows: pa.Table, key: tuple[str, ...]) -> None:
        self.names = rows.schema.names
        self.key = [self.names.index(name) for name in key]
        self.versions = [None, Counter(row_list(rows))]

    @property
    def newest(self) -> Counter:
        return self.versions[-1]

    def key_of(self, row: tuple) -> tuple | None:
        key = tuple(row[k] for k in self.key)
        return None if None in key else key

    def append(self, rows: pa.Table) -> None:
        self.versions.append(self.newest + Counter(row_list(rows)))

    def update(self, upserts: pa.Table | None, deletes: pa.Table | None) -> None:
        added = [] if upserts is None else row_list(upserts)
        gone = {self.key_of(row) for row in added}
        if deletes is not None:
            gone |= set(row_list(deletes.select([self.names[k] for k in self.key])))
        kept = Counter({r: n for r, n in self.newest.items() if self.key_of(r) not in gone})
        self.versions.append(kept + Counter(added))


def check_version(relation: FolderRelation, number: int, wanted: Counter) -> None:
    """Compare all rows of a version, and what its index says of its pages."""
    version = relation.version(number)
    names = relation.schema.names
    pages = np.arange(len(version.index))
    read = version.read(pages, names)
    assert Counter(row_list(read.batch)) == wanted
    assert version.rows == sum(wanted.values())
    assert read.starts[0] == 0
    assert read.starts[-1] == read.batch.num_rows == len(read.hashes)
    counts = np.diff(read.starts)
    assert (counts <= version.index.rows).all()
    keyed = len(version.index.first)
    if keyed:
        assert version.index.first[0] == 0
        page = np.repeat(pages, counts)
        own = page < keyed
        assert np.array_equal(version.index.page_of(read.hashes[own]), page[own])
        for k in range(keyed):
            hashes = read.hashes[read.starts[k] : read.starts[k + 1]]
            assert (hashes[1:] >= hashes[:-1]).all()
    if relation.key:
        assert np.array_equal(
            read.hashes, relation.key_hash.of_rows(read.batch, relation.key, "rows")
        )
    # In another order, some pages only, columns in another order.
    some = np.random.default_rng(number).permutation(pages)[: len(pages) // 2 + 1]
    again = version.read(some, names[::-1])
    assert again.batch.schema.names == names[::-1]
    for k, page in enumerate(some.tolist()):
        part = again.batch.slice(again.starts[k], again.starts[k + 1] - again.starts[k])
        whole = read.batch.slice(read.starts[page], read.starts[page + 1] - read.starts[page])
        assert Counter(row_list(part.select(names))) == Counter(row_list(whole))
    check_bounds(version, read)


def check_bounds(version: Version, read: Any) -> None:
    """Every value lies within the bounds of its page."""
    from penstock.host.rows.columns import vector

    for name, (least, greatest) in version.index.bounds.items():
        v = vector(read.batch.column(name), None, name)
        page = np.repeat(np.arange(len(least)), np.diff(read.starts))
        known = np.ones(len(page), bool) if v.valid is None else v.valid
        values, own = v.values[known], page[known]
        if values.dtype.kind == "f":
            nan = np.isnan(values)
            assert np.isnan(greatest[own[nan]]).all()
            values, own = values[~nan], own[~nan]
        high = greatest[own]
        assert (least[own] <= values).all()
        assert ((values <= high) | (high != high)).all()
