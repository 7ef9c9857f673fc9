"""Figures of the files design, beside the records of its batches."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO

from penstock.errors import FileError
from penstock.query.plan import LEFT, RIGHT
from penstock.spark_bridge.metrics.figures import BatchFigures, LaneFigures, summed
from penstock.spark_bridge.streaming.checksums import sealed, unsealed
from penstock.spark_bridge.streaming.commit import Commit
from penstock.spark_bridge.streaming.spec import JoinSpec
from penstock.spark_bridge.streaming.storage import Storage, storage_of

_FOLDER = "figures"

#: Batches whose figures are kept for those who come to read them.
KEPT = 100


@dataclass(frozen=True)
class FigureRecords:
    """The folder ``figures`` of a join's folder.

    Parameters
    ----------
    folder : str
        Of the join; a path, or the URI of an object store.
    """

    folder: str

    @property
    def _storage(self) -> Storage:
        return storage_of(self.folder)

    def put_lane(self, batch: int, figures: LaneFigures) -> None:
        """Called by a task that has read its rows to the end.

        Raises
        ------
        FileError
        """
        self._put(_lane(batch, figures.lane), asdict(figures))

    def put(self, spec: JoinSpec, before: Commit, commit: Commit, lanes: int) -> BatchFigures:
        """Called by the driver when the output is written: the sum of all lanes."""
        told = []
        for lane in range(lanes):
            # Without one, the figures say that they are not whole.
            with suppress(FileError):
                values = self._get(_lane(commit.batch, lane))
                told += [] if values is None else [LaneFigures(**values)]
        names = spec.names
        blocks = [file for own in commit.blocks().values() for file in own]
        figures = BatchFigures(
            batch=commit.batch,
            arrived={names[s]: commit.arrived[s] - before.arrived[s] for s in (LEFT, RIGHT)},
            late={names[s]: commit.late_rows[s] - before.late_rows[s] for s in (LEFT, RIGHT)},
            window_rows=sum(file.rows for file in blocks),
            window_bytes=sum(file.bytes for file in blocks),
            watermark_lag={names[s]: spec.disorder[s] for s in (LEFT, RIGHT) if commit.arrived[s]},
            is_whole=len(told) == lanes,
            **summed(told),
        )
        self._put(_batch(commit.batch), figures.as_json())
        self._clean(commit.batch)
        return figures

    def of(self, batch: int) -> BatchFigures | None:
        """The figures of a batch, if they are there."""
        values = self._get(_batch(batch))
        return None if values is None else BatchFigures(**values)

    def _get(self, name: str) -> dict[str, Any] | None:
        content = self._storage.get(name)
        try:
            return None if content is None else unsealed(name, content)
        except ValueError as error:
            raise FileError(
                f"{self._storage.shown(name)} cannot be read: {error}; remove it, the join does "
                "without"
            ) from error

    def _put(self, name: str, values: Mapping[str, Any]) -> None:
        self._storage.make((_FOLDER,))
        text = sealed(name, values).encode()

        def write(file: BinaryIO) -> None:
            file.write(text)

        self._storage.put(name, write)

    def _clean(self, batch: int) -> None:
        """Forget what lanes have said, and old batches."""
        names = [(name, name.removesuffix(".json")) for name in self._storage.names(_FOLDER)]
        self._storage.remove(
            f"{_FOLDER}/{name}"
            for name, number in names
            if not number.isdecimal() or int(number) <= batch - KEPT
        )


def _batch(batch: int) -> str:
    return f"{_FOLDER}/{batch}.json"


def _lane(batch: int, lane: int) -> str:
    return f"{_FOLDER}/{batch}-{lane}.json"
