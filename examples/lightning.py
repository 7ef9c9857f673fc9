# %% [markdown]
# # Lightning and the grid, into a Delta table
#
# A thunderstorm crosses a region. One stream has its strokes, the other one voltage dips, as
# substations report them. Which stroke was it? A stroke disturbs what lies within its reach, which
# differs from stroke to stroke, within half a second. There is no column that is equal on both
# sides, so Spark refuses to join the two streams. Penstock joins them, and each result is committed
# to a Delta table exactly once.

# %%
import tempfile

import pandas as pd
from deltalake import DeltaTable
from kit import FOUND, INK, LEFT, RIGHT, canvas, save, session, streams

import penstock
from penstock import spark_bridge

paths = streams("lightning")
spark = session("lightning and the grid")

# %% [markdown]
# Two streaming DataFrames. `penstock_replay` plays a file as a stream, ten minutes of the storm in
# a micro-batch; reports arrive up to 20 s late, and the watermarks allow for 30 s. In place of it
# Kafka, or any other source of Spark, would do.

# %%
tables = {}
for name in ("strokes", "dips"):
    source = spark.readStream.format("penstock_replay").option("time", "t")
    source = source.option("disorder", "20s").option("timePerBatch", "600s")
    tables[name] = source.load(paths[name]).withWatermark("t", "30 seconds")
tables["dips"].printSchema()

# %% [markdown]
# The join, as SQL. It is a left join: a dip without a stroke is wanted, too. It leaves once no
# stroke can come any more that explains it, which the watermark of the strokes says.

# %%
QUERY = """
SELECT d.id, d.t, d.x_m, d.y_m, s.id AS stroke, s.x_m AS stroke_x_m, s.y_m AS stroke_y_m
FROM dips d LEFT JOIN strokes s
  ON d.t BETWEEN s.t AND s.t + INTERVAL 500 MILLISECONDS
 AND (d.x_m - s.x_m) * (d.x_m - s.x_m) + (d.y_m - s.y_m) * (d.y_m - s.y_m) <= s.reach_m * s.reach_m
"""
explained = spark_bridge.stream(spark, QUERY, tables, lanes=2)

# %% [markdown]
# `start` gives Spark's own `StreamingQuery`. A driver that is killed is started again with the same
# checkpoint, and neither loses a row nor writes one twice. Here the stream ends with its files.

# %%
folder = tempfile.TemporaryDirectory()
table, checkpoint = f"{folder.name}/explained", f"{folder.name}/checkpoint"
query = (
    explained.writeStream.format("delta")
    .option("checkpointLocation", checkpoint)
    .trigger(availableNow=True)
    .start(table)
)
query.awaitTermination()
print(f"{query.recentProgress[-1]['batchId'] + 1} micro-batches")

# %% [markdown]
# Any reader of Delta tables sees the rows. Dips of the last seconds still wait for a stroke: `rest`
# is what would leave if both streams ended now. Together they are what `penstock.sql` says of the
# two files.

# %%
written = DeltaTable(table).to_pyarrow_table().to_pandas()
waiting = explained.remaining(checkpoint).toArrow().to_pandas()  # pyright: ignore
print(f"{len(written):,} rows in the Delta table, {len(waiting):,} waited at the end")
rows = pd.concat([written, waiting]).sort_values(["id", "stroke"], ignore_index=True)
wanted = penstock.sql(QUERY, paths, time={"d": "t", "s": "t"}).to_pandas()
wanted = wanted.sort_values(["id", "stroke"], ignore_index=True)
same = rows[["id", "stroke"]].astype("Int64").equals(wanted[["id", "stroke"]].astype("Int64"))
print("as penstock.sql" if same else "NOT as penstock.sql")

# %%
alone = rows[rows.stroke.isna()]
print(f"{rows.id.nunique():,} dips, {len(alone):,} of them without a stroke")

# %%
figure, (place, when) = canvas(11, 4.8, ncols=2)
km = rows[["x_m", "y_m", "stroke_x_m", "stroke_y_m"]] / 1000
place.plot(km.stroke_x_m, km.stroke_y_m, ".", color=RIGHT, ms=3)
lines = ([km.x_m, km.stroke_x_m], [km.y_m, km.stroke_y_m])
place.plot(*lines, color=FOUND, lw=0.5, alpha=0.5)
place.plot(km.x_m, km.y_m, "s", color=LEFT, ms=4)
place.set(xlabel="km", ylabel="km", title="Strokes and the substations that they disturbed")
place.set_aspect("equal")
minute = (rows.drop_duplicates("id").t - rows.t.min()).dt.total_seconds() // 60
kinds = [minute[rows.stroke.notna()], minute[rows.stroke.isna()]]
labels = ["after a stroke within reach", "without one"]
when.hist(kinds, bins=30, stacked=True, color=[FOUND, INK], label=labels)
when.set(xlabel="minute", ylabel="dips", title="Dips of the voltage")
when.legend(frameon=False)
save(figure, "lightning")
spark.stop()
folder.cleanup()
