"""Figures of the files design, beside the records of its batches."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass

from penstock.errors import FileError
from penstock.host.rows.file_store import FileStore
from penstock.plan.query import LEFT, RIGHT

from ..metrics.figures import BatchFigures, ShardFigures, summed
from .commit import Commit
from .spec import JoinSpec
from .store import FIGURES, file_store, remove_old

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
    def _files(self) -> FileStore:
        return file_store(self.folder, lost="remove it, the join does without")

    def put_shard(self, batch: int, figures: ShardFigures) -> None:
        """Called by a task that has read its rows to the end.

        Raises
        ------
        FileError
        """
        self._files.put_json(_shard(batch, figures.shard), asdict(figures))

    def put(self, spec: JoinSpec, before: Commit, commit: Commit, shards: int) -> BatchFigures:
        """Called by the driver when the output is written: the sum of all shards."""
        told = []
        for shard in range(shards):
            # Without one, the figures say that they are not whole.
            with suppress(FileError):
                values = self._files.get_json(_shard(commit.batch, shard))
                told += [] if values is None else [ShardFigures(**values)]
        names = spec.names
        figures = BatchFigures(
            batch=commit.batch,
            arrived={names[s]: commit.arrived[s] - before.arrived[s] for s in (LEFT, RIGHT)},
            late={names[s]: commit.late_rows[s] - before.late_rows[s] for s in (LEFT, RIGHT)},
            **commit.window(),
            watermark_lag={names[s]: spec.disorder[s] for s in (LEFT, RIGHT) if commit.arrived[s]},
            is_whole=len(told) == shards,
            **summed(told),
        )
        self._files.put_json(_batch(commit.batch), figures.as_json())
        # Those of single shards, and of old batches.
        remove_old(self._files, FIGURES, commit.batch - KEPT + 1)
        return figures

    def of(self, batch: int) -> BatchFigures | None:
        """The figures of a batch, if they are there."""
        values = self._files.get_json(_batch(batch))
        return None if values is None else BatchFigures(**values)


def _batch(batch: int) -> str:
    return f"{FIGURES}/{batch}.json"


def _shard(batch: int, shard: int) -> str:
    return f"{FIGURES}/{batch}-{shard}.json"
