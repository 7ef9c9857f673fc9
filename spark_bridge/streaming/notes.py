"""Short notes in folders, read and written by Spark: they may lie wherever Spark's files may."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from penstock.errors import FileError

from .room import SPARK_ERRORS, first_cause, room_for


def read_note(spark: SparkSession, folder: str) -> str | None:
    """The note in a folder; None if there is none.

    Parameters
    ----------
    spark : SparkSession
    folder : str
        Has nothing but the note.

    Raises
    ------
    FileError
    """
    if not is_there(spark, plain(folder)):
        return None
    try:
        lines = spark.read.text(plain(folder)).collect()
    except SPARK_ERRORS as error:
        raise FileError(
            f"the note in {folder}, which says of which query the folder around it is, cannot be "
            f"read: {first_cause(error)}; restore the folder from a backup, or begin anew with "
            "another one"
        ) from error
    return "\n".join(row["value"] for row in lines) if lines else None


def put_note(spark: SparkSession, folder: str, text: str) -> None:
    """Write the note of a folder.

    Raises
    ------
    FileError
    """
    note = spark.createDataFrame([(text,)], "value string").coalesce(1)
    with room_for(folder):
        note.write.mode("overwrite").text(folder)


def is_there(spark: SparkSession, pattern: str) -> bool:
    """Whether there is a file or folder whose path matches a pattern."""
    try:
        _ = spark.read.text(pattern).schema  # Spark Connect looks for the files only now
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return False
    return True


def plain(path: str) -> str:
    """A path, escaped as a pattern that matches it alone."""
    return "".join(f"\\{c}" if c in "*?[]{}\\" else c for c in path)
