"""Figures of the files design, beside the records of its batches."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.errors import FileError
from penstock.host.files import write_text
from penstock.query.plan import LEFT, RIGHT
from penstock.spark_bridge.metrics.figures import BatchFigures, LaneFigures, summed
from penstock.spark_bridge.streaming.commit import Commit
from penstock.spark_bridge.streaming.spec import JoinSpec

_FOLDER = "figures"

#: Batches whose figures are kept for those who come to read them.
KEPT = 100


@dataclass(frozen=True)
class FigureRecords:
    """The folder ``figures`` of a join's folder.

    Parameters
    ----------
    folder : str
        Of the join.
    """

    folder: str

    @property
    def _path(self) -> Path:
        return Path(self.folder, _FOLDER)

    def put_lane(self, batch: int, figures: LaneFigures) -> None:
        """Called by a task that has read its rows to the end.

        Raises
        ------
        FileError
        """
        path = self._path / str(batch)
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FileError(f"cannot make {path}: {error.strerror}; see that it can be") from error
        write_text(path / f"{figures.lane}.json", json.dumps(asdict(figures)))

    def put(self, spec: JoinSpec, before: Commit, commit: Commit, lanes: int) -> BatchFigures:
        """Called by the driver when the output is written: the sum of all lanes."""
        told = []
        for lane in range(lanes):
            path = self._path / str(commit.batch) / f"{lane}.json"
            if path.exists():
                told.append(LaneFigures(**json.loads(path.read_bytes())))
                path.unlink()
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
        self._path.mkdir(exist_ok=True)
        write_text(self._path / f"{commit.batch}.json", json.dumps(figures.as_json()))
        self._clean(commit.batch)
        return figures

    def of(self, batch: int) -> BatchFigures | None:
        """The figures of a batch, if they are there."""
        path = self._path / f"{batch}.json"
        try:
            return BatchFigures(**json.loads(path.read_bytes()))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            raise FileError(
                f"{path} cannot be read: {error}; remove it, the join does without"
            ) from error

    def _clean(self, batch: int) -> None:
        (self._path / f"{batch - KEPT}.json").unlink(missing_ok=True)
        for number in (batch, batch - 1):
            folder = self._path / str(number)
            if folder.is_dir():
                for path in list(folder.iterdir()):  # of a start with more lanes
                    path.unlink(missing_ok=True)
                with suppress(OSError):  # a task that was given up may just write there
                    folder.rmdir()
