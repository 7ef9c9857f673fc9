"""Chooses where rows of a DataFrame meet a relation: in their partitions, or in lanes with arcs.

In place, each task looks up whatever its partition has, so that all tasks keep the same frequent
keys. With arcs, rows are sent to the lane that owns the arc of the hash in which their key lies, so
that each keeps other keys, and a page is read by one lane only. But Spark must shuffle the rows,
and gives a lane to any of its Python workers. Such a worker keeps what it has read by arc, for as
many arcs as it has memory for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.errors import UsageError
from penstock.host.join.lookup.sought import sought_hashes
from penstock.host.lookup.memory import MemorySplit, kept_keys
from penstock.host.lookup.zipf import top_share
from penstock.host.relation.border import Version
from penstock.host.relation.key_hash import KeyHash
from penstock.host.routing.base import base_homes, cells_of_hashes
from penstock.plan.lookup import LookupPlan

from ..compiled import Compiled

#: Cells of hashes; an arc is some cells beside each other.
CELLS = 1 << 10

IN_PLACE, ARCS, AUTO = "in place", "arcs", "auto"

#: Seconds of a row whose key is not kept: its share of reading and searching a page, measured; from
#: an object store its share of a request, taken for 20 ms that 20 rows share.
_MISS_S, _REMOTE_MISS_S = 5e-6, 1e-3
#: Seconds to hash and to shuffle a row, measured.
_SHUFFLE_S = 4e-6
#: Exponent of Zipf's law by which keys are taken to come.
_EXPONENT = 1.0


@dataclass(frozen=True)
class MeetingPlace:
    """Partitions of a DataFrame in which its rows meet the relation.

    Parameters
    ----------
    lanes : int or None
        Partitions that rows are sent to; None if they stay.
    has_arcs : bool
        Whether each of these owns an arc of the hash.
    why : str
    """

    lanes: int | None
    has_arcs: bool
    why: str

    @property
    def arcs(self) -> int | None:
        """Number of arcs; None if there are none."""
        return self.lanes if self.has_arcs else None


@dataclass(frozen=True)
class WantedPlace:
    """Arguments of a call that decide where rows meet the relation.

    Parameters
    ----------
    partitioning : str or None
        :data:`IN_PLACE`, :data:`ARCS` or :data:`AUTO`.
    lanes : int or None
    ordered : bool
        Whether rows must come out in the order of the DataFrame.

    Raises
    ------
    UsageError
    """

    partitioning: str | None
    lanes: int | None
    ordered: bool

    def __post_init__(self) -> None:
        known = (None, AUTO, IN_PLACE, ARCS)
        if self.partitioning not in known:
            raise UsageError(
                f"partitioning={self.partitioning!r} is for a join of two DataFrames; with a "
                f"relation, leave it out, or give {IN_PLACE!r}, {ARCS!r} or {AUTO!r}"
            )
        if self.ordered and (self.lanes is not None or self.partitioning == ARCS):
            raise UsageError(
                "ordered=True keeps the order of the DataFrame, and lanes would send its rows to "
                "other tasks; leave one of them out"
            )
        if self.lanes is not None and self.partitioning == IN_PLACE:
            raise UsageError(
                f"lanes={self.lanes} sends rows to other tasks, and partitioning={IN_PLACE!r} "
                "leaves them where they are; leave one of them out"
            )

    def choose(
        self,
        plan: LookupPlan,
        version: Version,
        split: MemorySplit,
        *,
        shuffled: int,
        kept_joins: int,
        is_remote: bool,
        has_nodes: bool,
    ) -> MeetingPlace:
        """Choose the place, as the arguments say or else where a row costs least.

        Parameters
        ----------
        plan : LookupPlan
        version : Version
        split : MemorySplit
            Of a task.
        shuffled : int
            Lanes, if the call names none.
        kept_joins : int
            Arcs whose pages a worker can keep.
        is_remote : bool
            Whether the relation is in an object store.
        has_nodes : bool
            Whether rows are asked for at nodes, which have arcs of their own.

        Raises
        ------
        UsageError
            There are no arcs, since rows are not found by key.
        """
        if plan.sought_keys is None:
            if self.partitioning == ARCS:
                raise UsageError(
                    "partitioning='arcs' sends rows to tasks by their key, and this query looks "
                    "none up, since ON does not compare all columns of the relation's key by =; "
                    "leave it out"
                )
            return MeetingPlace(self.lanes, False, "no key is looked up")
        lanes = min(self.lanes or shuffled, CELLS)
        if self.lanes is not None:
            return MeetingPlace(lanes, True, f"lanes={self.lanes}")
        if self.partitioning == ARCS:
            return MeetingPlace(lanes, True, f"partitioning={ARCS!r}")
        if self.partitioning == IN_PLACE:
            return MeetingPlace(None, False, f"partitioning={IN_PLACE!r}")
        if self.ordered:
            return MeetingPlace(None, False, "the order of the DataFrame is kept")
        if has_nodes:
            return MeetingPlace(None, False, "the nodes of the relation own the arcs")
        miss_s = _REMOTE_MISS_S if is_remote else _MISS_S
        return self._cheapest(version, split, lanes, kept_joins, miss_s)

    @staticmethod
    def _cheapest(
        version: Version, split: MemorySplit, lanes: int, kept_joins: int, miss_s: float
    ) -> MeetingPlace:
        """The place where a row costs least, when one whose key is not kept costs ``miss_s``."""
        kept = kept_keys(version, split.cache)
        share = top_share(kept, version.rows, _EXPONENT) if version.rows else 1.0
        if kept >= version.rows or lanes == 1:
            return MeetingPlace(None, False, f"a task keeps {share:.0%} of what comes")
        # An arc that meets a worker which does not keep it begins anew.
        is_kept = min(1.0, kept_joins / lanes)
        shared = top_share(kept * lanes, version.rows, _EXPONENT) * is_kept
        has_arcs = (shared - share) * miss_s > _SHUFFLE_S
        saves = "more" if has_arcs else "less"
        why = (
            f"a task keeps {share:.0%} of what comes, and {lanes} arcs would keep {shared:.0%} in "
            f"workers that have room for {kept_joins}, which saves {saves} than a shuffle costs"
        )
        return MeetingPlace(lanes if has_arcs else None, has_arcs, why)


@dataclass(frozen=True)
class ArcOf:
    """Finds the arc of each row; travels to the tasks that send rows to lanes.

    Parameters
    ----------
    compiled : Compiled
    inner : str
        The relation's side.
    key : tuple of str
        Columns by which the relation's rows are found.
    hash_name : str
        The relation's hash.
    lanes : int
    """

    compiled: Compiled
    inner: str
    key: tuple[str, ...]
    hash_name: str
    lanes: int

    def __call__(self, columns: Sequence[pa.Array]) -> pa.Array:
        """Compute the arc of each row, from the stream's columns that hold the relation's key."""
        plan = LookupPlan(self.compiled.query(), self.inner, self.key)
        side, names = plan.outer, plan.sought_key_columns
        schema = self.compiled.by_side()[side.side]
        arrays = [array.cast(schema.field(n).type) for array, n in zip(columns, names, strict=True)]
        rows = pa.RecordBatch.from_arrays(arrays, names=names)
        hashes, valid = sought_hashes(plan, KeyHash(self.hash_name), rows)
        if valid is not None:
            hashes[~valid] = 0
        return pa.array(arcs(hashes, self.lanes))


def arcs(hashes: np.ndarray, lanes: int) -> np.ndarray:
    """The arc of each hash, of ``lanes`` arcs of about the same length; int32."""
    return base_homes(CELLS, lanes)[cells_of_hashes(hashes, CELLS)].astype(np.int32)
