"""Figures of a streaming join's batches, beside their records."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass

from penstock.errors import FileError
from penstock.host.store.file_store import FileStore
from penstock.plan.query import LEFT, RIGHT

from ..metrics.figures import BatchFigures, ShardFigures, add_up
from .commit import BatchRecord
from .spec import JoinSpec
from .store import FIGURE_NAMES, FIGURES, file_store

#: Number of batches whose figures are kept.
KEPT = 100


@dataclass(frozen=True)
class FigureRecords:
    """Files of a join's figures, by micro-batch.

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
        """Write the figures of a task; called when its output is read to the end.

        Raises
        ------
        FileError
        """
        self._files.put_json(_shard(batch, figures.shard), asdict(figures))

    def put(
        self, spec: JoinSpec, before: BatchRecord, commit: BatchRecord, shards: int
    ) -> BatchFigures:
        """Write the figures of a batch, summed over its shards, after its output."""
        shard_figures = []
        for shard in range(shards):
            # If one is missing, is_whole is False.
            with suppress(FileError):
                values = self._files.get_json(_shard(commit.batch, shard))
                shard_figures += [] if values is None else [ShardFigures(**values)]
        names = spec.names
        figures = BatchFigures(
            batch=commit.batch,
            arrived={names[s]: commit.arrived[s] - before.arrived[s] for s in (LEFT, RIGHT)},
            late={names[s]: commit.late_rows[s] - before.late_rows[s] for s in (LEFT, RIGHT)},
            **commit.window(),
            watermark_lag={names[s]: spec.disorder[s] for s in (LEFT, RIGHT) if commit.arrived[s]},
            unit=getattr(spec.query().window, "unit", ""),
            is_whole=len(shard_figures) == shards,
            routing=None if commit.routed is None else commit.routed["figures"],
            **add_up(shard_figures),
        )
        self._files.put_json(FIGURE_NAMES.name(commit.batch), figures.as_json())
        # Figures of single shards go, too.
        FIGURE_NAMES.keep_from(self._files, commit.batch - KEPT + 1)
        return figures

    def figures(self, batch: int) -> BatchFigures | None:
        """The figures of a batch, if they are there."""
        values = self._files.get_json(FIGURE_NAMES.name(batch))
        return None if values is None else BatchFigures(**values)


def _shard(batch: int, shard: int) -> str:
    return f"{FIGURES}/{batch}-{shard}.json"
