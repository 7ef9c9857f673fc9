"""Checks of the state design before Spark starts the query.

The design gives a DataFrame, whose query Spark starts. Its writer is Spark's own, except that it
first checks that the checkpoint is the query's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from penstock.errors import FileError, UsageError
from penstock.host.rows.checksums import sealed, unsealed

from .identity import require_same
from .notes import is_there, plain, put_note, read_note
from .place import log_number
from .room import SPARK_ERRORS, first_cause, started
from .store import LOST

#: Folder in Spark's checkpoint with the identity of its query.
FOLDER = "penstock-query"

#: Folder in which Spark's sink of files notes its batches.
_SINK_LOG = "_spark_metadata"

#: Spark's setting of the folder of checkpoints, for queries that name no checkpoint.
_DEFAULT = "spark.sql.streaming.checkpointLocation"


def check_query(spark: SparkSession, wanted: Mapping[str, Any], checkpoint: str) -> None:
    """Check that a checkpoint is a query's, or make it the query's.

    Spark reads and writes the note, so it may lie wherever a checkpoint may.

    Parameters
    ----------
    spark : SparkSession
    wanted : mapping
        Identity of the query, as JSON has it.
    checkpoint : str

    Raises
    ------
    UsageError
        It is another query's.
    FileError
        The note, or a log of Spark's, is damaged.
    """
    check_logs(spark, checkpoint.rstrip("/"))
    path = f"{checkpoint.rstrip('/')}/{FOLDER}"
    note = read_note(spark, path)
    if note is None:
        put_note(spark, path, sealed(FOLDER, wanted))
        return
    try:
        found = unsealed(FOLDER, note)
    except ValueError as error:
        raise FileError(f"the note in {path} cannot be read: {error}; {LOST}") from error
    require_same(found, wanted, f"the checkpoint {checkpoint}")


def check_output(spark: SparkSession, path: str, checkpoint: str) -> None:
    """Check that Spark's own sink of files will not skip the batches of a new query.

    The sink skips a batch if the path's log has its number, whichever query wrote that.

    Raises
    ------
    UsageError
        The path has a log already, and the query has no batch yet.
    """
    is_new = not is_there(spark, f"{plain(checkpoint.rstrip('/'))}/offsets/*")
    if is_new and is_there(spark, f"{plain(path.rstrip('/'))}/{_SINK_LOG}"):
        raise UsageError(
            f"{path} has the output of another query, or of this one from another checkpoint: "
            "Spark would take batches of this one for written, and skip them; choose another "
            "path, or remove the folder"
        )


def check_logs(spark: SparkSession, checkpoint: str) -> None:
    """Check that no file is gone in which Spark has noted a query's rows.

    Spark takes a missing file for the end of its log, and does not check what is in the others.

    Raises
    ------
    FileError
    """
    kinds = [f"{plain(checkpoint)}/{kind}" for kind in ("offsets/*", "commits/*", "sources/*/*")]
    there = [kind for kind in kinds if is_there(spark, kind)]
    if not there:
        return
    files = spark.read.text(there, wholetext=True).select("_metadata.file_path", "value")
    try:
        logs = {tuple(row[0].split("/")[-3:]): row[1] for row in files.collect()}
    except SPARK_ERRORS as error:
        raise FileError(
            f"what Spark has noted in {checkpoint} cannot be read: {first_cause(error)}; {LOST}"
        ) from error
    offsets = {
        log_number(name): text for (_, kind, name), text in logs.items() if kind == "offsets"
    }
    if not offsets:
        return
    # A line for the version, one for the batch, and one per source.
    for source, line in enumerate(offsets[max(offsets)].splitlines()[2:]):
        reached = _reached(line)
        own = [log_number(n) for kind, k, n in logs if (kind, k) == ("sources", str(source))]
        if reached is not None and max(own, default=-1) < reached:
            raise FileError(f"{checkpoint}/sources/{source}/{reached} is gone; {LOST}")


def _reached(offset: str) -> int | None:
    """Number of the last file of its log that a source has used; None if it has no log."""
    try:
        found = json.loads(offset)
    except ValueError:
        return None
    return found["logOffset"] if isinstance(found, dict) and found.keys() == {"logOffset"} else None


def with_check(frame: DataFrame, check: Callable[[str], None]) -> DataFrame:
    """A DataFrame whose writer calls ``check`` with the checkpoint's location before it starts.

    DataFrames made from it have Spark's own writer; for them, tasks compare the identity.

    Parameters
    ----------
    frame : DataFrame
        Changed in place.
    check : callable
    """
    kind = type(frame)  # classic or Spark Connect's

    class Checked(kind):
        @property
        def writeStream(self) -> Any:
            return _checked(super().writeStream, self.sparkSession, check)

    frame.__class__ = Checked
    return frame


def _checked(writer: Any, spark: SparkSession, check: Callable[[str], None]) -> Any:
    kind = type(writer)
    said: dict[str, str] = {}

    class Checked(kind):
        def option(self, key: str, value: Any) -> Any:
            said[key.lower()] = str(value)
            return super().option(key, value)

        def options(self, **options: Any) -> Any:
            for key, value in options.items():
                said[key.lower()] = str(value)
            return super().options(**options)

        def queryName(self, queryName: str) -> Any:
            said["queryname"] = queryName
            return super().queryName(queryName)

        def start(self, *args: Any, **options: Any) -> Any:
            location = _look({"path": args[0] if args else None} | options)
            return started(lambda: kind.start(self, *args, **options), location)

        def toTable(self, *args: Any, **options: Any) -> Any:
            location = _look(options)
            return started(lambda: kind.toTable(self, *args, **options), location)

    def _look(options: Mapping[str, Any]) -> str | None:
        """Check the checkpoint, and give its location."""
        all_said = said | {key.lower(): str(v) for key, v in options.items() if v is not None}
        location, folder = all_said.get("checkpointlocation"), spark.conf.get(_DEFAULT, None)
        if location is None and folder and "queryname" in all_said:
            location = f"{folder}/{all_said['queryname']}"
        if location is not None:  # otherwise Spark makes a new one, or refuses
            check(location)
            if "path" in all_said:
                check_output(spark, all_said["path"], location)
        return location

    writer.__class__ = Checked
    return writer
