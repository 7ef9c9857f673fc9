"""Folders of output: each belongs to one query and holds its batches by number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame, SparkSession

from penstock.errors import UsageError

from .notes import is_there, plain, put_note, read_note
from .room import room_for

#: Folder beside the batches with the number of their query. Readers of the output skip it.
MARKER = "_penstock"


@dataclass(frozen=True)
class FolderSink:
    """Writes each micro-batch into a folder of its own; a repeated batch replaces it.

    Parameters
    ----------
    path : str
    format : str
    options : dict
        Of the format.
    by : tuple of str
        Columns with a folder for each of their values, within that of the batch.
    """

    path: str
    format: str
    options: dict[str, str] = field(default_factory=dict)
    by: tuple[str, ...] = ()

    def __call__(self, rows: DataFrame, batch: int) -> None:
        folder = f"{self.path.rstrip('/')}/batch={batch}"
        writer = rows.write.mode("overwrite").format(self.format).options(**self.options)
        with room_for(folder):
            writer.partitionBy(*self.by).save(folder)

    def check(self, columns: Sequence[str]) -> None:
        """Refuse partition columns that the output does not have.

        Raises
        ------
        UsageError
        """
        for name in self.by:
            if name not in columns or name == "batch":
                raise UsageError(
                    f"partitionBy names {name}, and the output has {', '.join(columns)}; a column "
                    "batch is made by itself"
                )

    def take(self, spark: SparkSession, query: str, *, is_new: bool = True) -> None:
        """Check that the path is the query's, or make it the query's.

        Spark reads and writes the note, so it may lie wherever the output may.

        Parameters
        ----------
        spark : SparkSession
        query : str
            Number of the query.
        is_new : bool
            Whether the query has no batch yet. If it has some, batches in a path without a note
            may be its own, written by a function for ``foreachBatch``.

        Raises
        ------
        UsageError
            It has batches of another query; or it has any, and the query is new.
        """
        path = self.path.rstrip("/")
        marker = f"{path}/{MARKER}"
        note = read_note(spark, marker)
        if note == query:
            return
        # Spark's file system takes no pattern for a path with a colon.
        batches = path if ":" in path.split("://")[-1] else f"{plain(path)}/batch=*"
        if note is not None or (is_new and is_there(spark, batches)):
            raise UsageError(
                f"{self.path} has the output of another query, or of this one from another "
                "checkpoint: its batches would be replaced by number, and rows of both mixed; "
                "choose another path, or remove the folder"
            )
        put_note(spark, marker, query)


def require_distinct(folders: Sequence[FolderSink]) -> None:
    """Refuse two outputs in the same folder.

    Raises
    ------
    UsageError
    """
    paths = Counter(folder.path.rstrip("/") for folder in folders)
    twice = [path for path, count in paths.items() if count > 1]
    if twice:
        raise UsageError(
            f"{twice[0]} would get the output and rows that came too late, and each would replace "
            "the other; give another latePath"
        )
