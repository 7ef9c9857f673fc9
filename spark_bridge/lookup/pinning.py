"""Chooses the version of a relation that rows meet."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from penstock.errors import UsageError
from penstock.host.join.lookup.source import RelationTable
from penstock.host.relation import FolderRelation, Relation

from .versions import DRIVER, FixedVersion, OwnSnapshot, PinnedVersion

#: Spark's setting of how many micro-batches a query can go back to.
_RETAINED = "spark.sql.streaming.minBatchesToRetain"


def version_of(
    spark: SparkSession,
    frame: DataFrame,
    table: RelationTable,
    stored: Relation,
    pins: str | None,
) -> FixedVersion | OwnSnapshot | PinnedVersion:
    """What chooses the version that rows meet.

    Raises
    ------
    UsageError, FileError
    """
    if not isinstance(stored, FolderRelation):
        if frame.isStreaming or pins is not None:
            raise UsageError(
                f"{stored.name} has no versions that could be pinned, so a micro-batch that Spark "
                "repeats could meet other rows: join the batch DataFrame that foreachBatch gives, "
                "or store a copy with `penstock relation build`"
            )
        return OwnSnapshot()
    if frame.isStreaming:
        fixed = table.version
        if fixed is None and table.refresh == "start":
            fixed = stored.newest()
        kept = int(spark.conf.get(_RETAINED, None) or "100")
        return PinnedVersion(table.location, pins, fixed, kept)
    return FixedVersion(DRIVER.pin(stored, table.version))
