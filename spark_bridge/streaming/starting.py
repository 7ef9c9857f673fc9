"""What of the state design is looked at before Spark starts the query.

The design gives a DataFrame, which Spark starts. So its writer is Spark's own but for one thing: it
looks whether the checkpoint is that of the query.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from penstock.spark_bridge.streaming.identity import require_same

#: Folder in Spark's checkpoint that says of which query it is.
FOLDER = "penstock-query"

#: Spark's setting for checkpoints of queries that name none.
_DEFAULT = "spark.sql.streaming.checkpointLocation"


def check_query(spark: SparkSession, wanted: Mapping[str, Any], checkpoint: str) -> None:
    """See that a checkpoint is that of a query, or note that it is from now on.

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
    """
    path = f"{checkpoint.rstrip('/')}/{FOLDER}"
    try:
        lines = spark.read.text(path).collect()
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        lines = []
    if lines:
        require_same(json.loads(lines[0]["value"]), wanted, f"the checkpoint {checkpoint}")
        return
    note = spark.createDataFrame([(json.dumps(wanted),)], "value string")
    note.coalesce(1).write.mode("overwrite").text(path)


def with_check(frame: DataFrame, check: Callable[[str], None]) -> DataFrame:
    """A DataFrame whose writer calls a function of the checkpoint's location before it starts.

    Frames made from it have Spark's own writer; for them tasks look.

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
            _look(options)
            return super().start(*args, **options)

        def toTable(self, *args: Any, **options: Any) -> Any:
            _look(options)
            return super().toTable(*args, **options)

    def _look(options: Mapping[str, Any]) -> None:
        all_said = said | {key.lower(): str(v) for key, v in options.items() if v is not None}
        location, folder = all_said.get("checkpointlocation"), spark.conf.get(_DEFAULT, None)
        if location is None and folder and "queryname" in all_said:
            location = f"{folder}/{all_said['queryname']}"
        if location is not None:  # otherwise Spark makes a new one, or refuses
            check(location)

    writer.__class__ = Checked
    return writer
