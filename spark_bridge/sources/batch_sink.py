"""``penstock_batches`` where a function gets each micro-batch, as in the files design."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyarrow import fs

from penstock.errors import FileError
from penstock.spark_bridge.sources.ledger import Ledger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME = "penstock_batches"


@dataclass(frozen=True)
class BatchSink:
    """Commits each micro-batch once.

    Parameters
    ----------
    path : str
        Folder of the batches.
    checkpoint : str
        Spark's checkpoint, whose number tells its query's batches from those of others.
    writer : str, optional
        Takes the place of that number.
    query : str, optional
        Number of the query, which such a writer then is.
    """

    path: str
    checkpoint: str
    writer: str | None = None
    query: str | None = None

    def __call__(self, rows: DataFrame, batch: int) -> None:
        writer = self.writer or query_number(self.checkpoint)
        if self.writer is not None and self.query is not None:
            Ledger(self.path.removeprefix("file://")).take_writer(writer, self.query)
        options = {"writer": writer, "batch": str(batch)}
        rows.write.format(NAME).mode("append").options(**options).save(self.path)


def query_number(checkpoint: str) -> str:
    """What Spark calls the query of a checkpoint: the same for as long as the checkpoint lives.

    Raises
    ------
    FileError
    """
    where = checkpoint if "://" in checkpoint else str(Path(checkpoint).absolute())
    try:
        system, path = fs.FileSystem.from_uri(where)
        with system.open_input_file(f"{path.rstrip('/')}/metadata") as file:
            return str(json.loads(file.read())["id"])
    except (OSError, ValueError, KeyError) as error:
        raise FileError(
            f"cannot read Spark's number of the query in {checkpoint}/metadata: {error}; give the "
            'query a name of its own with option("writer", NAME)'
        ) from error
