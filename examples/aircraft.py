# %% [markdown]
# # Aircraft conflicts
#
# Pairs of aircraft that are less than 5 nautical miles and less than 1,000 ft apart: the
# separation that air traffic control keeps. Each aircraft tells its place once a second; the join
# is of the stream with itself, as it arrives.

# %%
import tempfile

import numpy as np
from deltalake import DeltaTable
from kit import FOUND, INK, LEFT, canvas, save, session, streams

from penstock import spark_bridge

paths = streams("aircraft")
spark = session("aircraft conflicts")

# %% [markdown]
# `penstock_replay` plays a file as a stream: five minutes of it per micro-batch here, each row up
# to 3 s late by chance. The same rows come each time, so a query that crashed goes on exactly
# where it was.

# %%
source = spark.readStream.format("penstock_replay").option("time", "t_s:s")
source = source.option("disorder", "3s").option("seed", 1).option("timePerBatch", "5m")
tables = {"a": source.load(paths["aircraft"]), "b": source.load(paths["aircraft"])}
conflicts = spark_bridge.stream(
    spark,
    """
    SELECT a.t_s, a.icao24 AS one, b.icao24 AS other, a.x_m, a.y_m, a.alt_ft,
           (a.x_m - b.x_m) * (a.x_m - b.x_m) + (a.y_m - b.y_m) * (a.y_m - b.y_m) AS square_m
    FROM a JOIN b
      ON b.t_s BETWEEN a.t_s - 1 AND a.t_s + 1 AND a.icao24 < b.icao24
     AND abs(a.alt_ft - b.alt_ft) < 1000
     AND (a.x_m - b.x_m) * (a.x_m - b.x_m) + (a.y_m - b.y_m) * (a.y_m - b.y_m) <= 9260 * 9260
    """,
    tables,
    time={"a": "t_s:s", "b": "t_s:s"},
    disorder=3,
    lanes=2,
)

# %% [markdown]
# A Delta table gets each micro-batch once, whatever fails. `watch` hears what the join did;
# with `spark.penstock.metrics.port` set, Prometheus and `penstock top` hear it too.

# %%
heard = spark_bridge.watch(spark)
with tempfile.TemporaryDirectory() as folder:
    writer = conflicts.writeStream.format("delta").trigger(availableNow=True)
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").start(f"{folder}/rows")
    query.awaitTermination()
    heard.wait(query, query.recentProgress[-1]["batchId"], timeout_s=60)
    near = DeltaTable(f"{folder}/rows").to_pyarrow_table().to_pandas()
print("batch    rows in  late  pairs in window  conflicts  kept in window")
for batch in heard.batches(query):
    rows, late = sum(batch.arrived.values()), sum(batch.late.values())
    counts = f"{batch.pairs_in_window:16,} {batch.rows:10,} {batch.window_rows:15,}"
    print(f"{batch.batch:5} {rows:10,} {late:5,} {counts}")

# %%
near["km"] = np.sqrt(near.square_m.astype(float)) / 1000
worst = near.sort_values(["km", "t_s", "one", "other"]).drop_duplicates(["one", "other"])
print(f"{len(near):,} times, {len(worst)} pairs of aircraft; the closest:")
print(worst.head(5)[["one", "other", "t_s", "alt_ft", "km"]].round(2).to_string(index=False))

# %%
flown = spark.read.parquet(paths["aircraft"]).toPandas()
figure, (sky, depth) = canvas(11, 5.4, ncols=2, width_ratios=(1.15, 1))
for _, track in flown.groupby("icao24"):
    sky.plot(track.x_m / 1000, track.y_m / 1000, ".", ms=0.6, color=LEFT, alpha=0.35)
sky.scatter(near.x_m / 1000, near.y_m / 1000, s=5, color=FOUND, lw=0, label="conflict", zorder=3)
sky.plot([], [], color=LEFT, lw=1.5, label="aircraft")
sky.set(xlabel="east (km)", ylabel="north (km)", title="Half an hour of aircraft", aspect="equal")
sky.legend(loc="upper right", frameon=True, framealpha=0.9, markerscale=2)
first = flown.t_s.min()
depth.scatter((near.t_s - first) / 60, near.km / 1.852, s=4, color=FOUND, lw=0)
depth.axhline(5, color=INK, lw=1, ls="--")
depth.text(0, 5.08, "separation to be kept", color=INK)
depth.set(xlabel="time (min)", ylabel="distance (nautical miles)", ylim=(0, 5.5))
depth.set_title("How close they came")
save(figure, "aircraft")
spark.stop()
