"""Streams in the session's time zone: the hour that is shown twice, and checkpoints."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from random import Random

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

import penstock
from penstock.errors import UsageError
from penstock.spark_bridge import stream
from tests.spark_bridge.kit.settings import setting
from tests.spark_bridge.kit.streams import (
    cut,
    rows_of,
    stream_of,
    table,
    written,
)
from tests.spark_bridge.test_time_zones import NEW_YORK, ZONE

#: An hour before clocks are put back in New York.
START = int(datetime(2024, 11, 3, 5, tzinfo=UTC).timestamp())
NEAR = "b.t BETWEEN a.t - INTERVAL 2 MINUTES AND a.t + INTERVAL 3 MINUTES"
HOUR = "cast(date_trunc('hour', a.t) AS timestamp_ntz)"
GROUPS = f"SELECT {HOUR} AS a, count(*) AS b FROM a JOIN b ON {NEAR} GROUP BY {HOUR}"
PAIRS = (
    f"SELECT a.n AS a, b.n AS b FROM a JOIN b ON {NEAR} AND a.t > timestamp'2024-11-03 01:10:00'"
)


def streams(spark, folder, parts: int):
    tables, whole = {}, {}
    for seed, side in enumerate("ab"):
        random = Random(seed)
        rows = [(n, START + 60 * n - random.randint(0, 4), 1) for n in range(180)]
        # A last batch, long after all others, lets out what waits.
        batches = [*cut(rows, parts), [(-1, START + 86_400, 1)]]
        tables[side] = stream_of(spark, written(folder / side, [table(b) for b in batches]))
        whole[side] = table(rows)
    return tables, whole


@pytest.mark.slow
@pytest.mark.parametrize("text", [GROUPS, PAIRS])
def test_rows_and_the_checkpoint(spark, tmp_path, text):
    output, checkpoint = str(tmp_path / "output"), str(tmp_path / "checkpoint")

    def started(joined):
        writer = joined.writeStream.format("parquet").outputMode("append")
        writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        return writer.start(output)

    tables, whole = streams(spark, tmp_path, 3)
    with setting(spark, ZONE, NEW_YORK):
        joined = stream(spark, text, tables)
        assert started(joined).awaitTermination(240)
        found = spark.read.schema(joined.schema).parquet(output).toArrow()
    with setting(spark, ZONE, "UTC"):
        other = stream(spark, text, tables)
        with pytest.raises(UsageError, match=r"of another query.*: time_zone `.*` is now"):
            started(other)
    expected = penstock.sql(text, whole, time_zone=NEW_YORK)
    assert expected.num_rows > 2
    rows = [row for row in rows_of(found, ["a", "b"]) if row[0] != -1]
    assert Counter(rows) == Counter(rows_of(expected, ["a", "b"]))
    assert expected.num_rows != penstock.sql(text, whole, time_zone="UTC").num_rows
