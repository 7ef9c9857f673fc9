"""The record of a micro-batch, written once and before its output: which files it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any

from penstock.host.join.step import RowBlock
from penstock.plan.query import LEFT, RIGHT
from penstock.plan.window import NEVER

#: Files by side, in the order of arrival.
Files = Mapping[str, Sequence["StoredFile"]]

#: Fields of a record that name files.
_KINDS = ("old", "new", "timeless", "late")


@dataclass(frozen=True, kw_only=True)
class StoredFile(RowBlock):
    """Rows of one side in a file, in the order of time, or of cells and time.

    Parameters
    ----------
    name : str
        Within the folder of the rows.
    bytes : int
    checksum : str
    cells : mapping, optional
        Rows of each routing cell, as of :mod:`.cell_index`: then they are in the order of cells,
        and only those of one cell in the order of time.
    """

    name: str
    bytes: int
    checksum: str
    cells: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Part:
    """Some cells of a file, which a lane reads together.

    Parameters
    ----------
    name : str
        Unique within the query.
    stretches : sequence of (int, int)
        First row, and the one after the last.
    """

    name: str
    stretches: Sequence[tuple[int, int]]


def _none() -> dict[str, list[StoredFile]]:
    return {LEFT: [], RIGHT: []}


def _zeros() -> dict[str, int]:
    return {LEFT: 0, RIGHT: 0}


@dataclass(frozen=True, kw_only=True)
class BatchRecord:
    """State of a join before a micro-batch, and the rows that the micro-batch adds.

    Parameters
    ----------
    batch : int
        Spark's number of the micro-batch; -1 before the first.
    query : str
        Number of the query.
    position : mapping of str to str
        Checksums of the files in which Spark's checkpoint notes the batch's rows, by name.
    before, after : mapping of side to int
        Watermarks before and after its rows.
    old, new : mapping of side to list of StoredFile
        Rows of earlier batches that this or a later batch may read; rows of this batch.
    timeless, late : mapping of side to list of StoredFile
        Rows of this batch: without a time but preserved; too late.
    arrived, late_rows : mapping of side to int
        Rows since the query began.
    waiting : sequence of StoredFile
        Joined rows, of this and earlier batches, whose groups were not complete before it; their
        times are the values by which groups close. See :mod:`.waiting_rows`.
    closed : (int, int)
        The value below which groups are complete, before and after the batch.
    heard : mapping of side to float
        When the driver last saw rows of a side, in seconds since 1970.
    routing : mapping, optional
        Which lane gets which rows, as of :class:`.routing.Routing`, or only the bounds of a
        band's cells; None without keys.
    """

    batch: int = -1
    query: str = ""
    position: Mapping[str, str] = field(default_factory=dict)
    before: Mapping[str, int] = field(default_factory=lambda: {LEFT: NEVER, RIGHT: NEVER})
    after: Mapping[str, int] = field(default_factory=lambda: {LEFT: NEVER, RIGHT: NEVER})
    old: Files = field(default_factory=_none)
    new: Files = field(default_factory=_none)
    timeless: Files = field(default_factory=_none)
    late: Files = field(default_factory=_none)
    arrived: Mapping[str, int] = field(default_factory=_zeros)
    late_rows: Mapping[str, int] = field(default_factory=_zeros)
    waiting: Sequence[StoredFile] = ()
    closed: Sequence[int] = (NEVER, NEVER)
    heard: Mapping[str, float] = field(default_factory=dict)
    routing: Mapping[str, Any] | None = None

    @property
    def routed(self) -> Mapping[str, Any] | None:
        """``routing``, if lanes get rows by it: a table, and figures of its plan."""
        return self.routing if self.routing is not None and "table" in self.routing else None

    def files(self) -> list[StoredFile]:
        """All files of the record."""
        lists = (files for kind in _KINDS for files in getattr(self, kind).values())
        return [*chain.from_iterable(lists), *self.waiting]

    def kept(self) -> list[StoredFile]:
        """Files of rows that a later batch may read."""
        return [file for files in self.blocks().values() for file in files]

    def blocks(self) -> dict[str, list[StoredFile]]:
        """The files of :meth:`kept` by side, in the order of arrival."""
        return {side: [*self.old[side], *self.new[side]] for side in (LEFT, RIGHT)}

    def window(self) -> dict[str, int]:
        """Rows and bytes that a later batch may read, as figures."""
        files = self.kept()
        return {
            "window_rows": sum(file.rows for file in files),
            "window_bytes": sum(file.bytes for file in files),
        }

    def following(
        self, arrived: Mapping[str, int], late_rows: Mapping[str, int], **values: Any
    ) -> BatchRecord:
        """The record of the next batch.

        Parameters
        ----------
        arrived, late_rows : mapping of side to int
            Rows of that batch alone.
        **values
            Its other fields.
        """
        return BatchRecord(
            batch=self.batch + 1,
            before=self.after,
            arrived={side: self.arrived[side] + rows for side, rows in arrived.items()},
            late_rows={side: self.late_rows[side] + rows for side, rows in late_rows.items()},
            **values,
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> BatchRecord:
        """Read a record as :meth:`as_json` gives it."""
        read = {
            kind: {side: [StoredFile(**f) for f in files] for side, files in values[kind].items()}
            for kind in _KINDS
        }
        waiting = tuple(StoredFile(**one) for one in values.get("waiting", ()))
        closed = tuple(values.get("closed", (NEVER, NEVER)))
        return BatchRecord(**{**values, **read, "waiting": waiting, "closed": closed})
