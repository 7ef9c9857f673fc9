# %% [markdown]
# # Orders and vehicles
#
# Which vehicles could have taken an order: those that were within 400 m of it, in Manhattan
# distance, in the minute before. Neither distance nor time is an equality, so Spark compares each
# order with each position; Penstock runs the comparison on the cores of the machine (or on a
# device), window by window.

# %%
import numpy as np
from kit import FOUND, INK, LEFT, canvas, save, session, streams

from penstock import spark_bridge

paths = streams("orders_vehicles")
spark = session("orders and vehicles")
orders, vehicles = (spark.read.parquet(paths[name]) for name in ("orders", "vehicles"))

# %% [markdown]
# One row per order that some vehicle was near: how many positions there were, and how far away the
# nearest was. The aggregates are folded where the join runs, so no pair is written.

# %%
NEAR = """
SELECT o.id, o.x_m, o.y_m, o.t_s, count(*) AS near,
       min(abs(o.x_m - v.x_m) + abs(o.y_m - v.y_m)) AS metres
FROM orders o JOIN vehicles v
  ON abs(o.x_m - v.x_m) + abs(o.y_m - v.y_m) < 400
 AND v.t_s BETWEEN o.t_s - 60 AND o.t_s
GROUP BY o.id, o.x_m, o.y_m, o.t_s
"""
tables, time = {"orders": orders, "vehicles": vehicles}, {"o": "t_s:s", "v": "t_s:s"}
print(spark_bridge.explain(spark, NEAR, tables, time=time, lanes=2))

# %%
served = spark_bridge.sql(spark, NEAR, tables, time=time, lanes=2).toPandas()
served = served.sort_values("id")
print(f"{len(served):,} of {orders.count():,} orders had a vehicle near")
print(f"nearest, median: {served.metres.median():.0f} m")
print(served.head(5).to_string(index=False))

# %% [markdown]
# The same as an anti join: orders that no vehicle was near.

# %%
alone = orders.transform(
    spark_bridge.join,
    vehicles,
    on="abs(l.x_m - r.x_m) + abs(l.y_m - r.y_m) < 400 AND r.t_s BETWEEN l.t_s - 60 AND l.t_s",
    time="t_s:s",
    how="anti",
    lanes=2,
).toPandas()
print(f"{len(alone):,} had none")
assert len(alone) + len(served) == orders.count()

# %%
figure, (place, far) = canvas(11, 5.2, ncols=2)
extent = np.quantile(np.abs(np.concatenate([served.x_m, served.y_m])), 0.995) / 1000
for rows, colour, label in ((served, LEFT, "a vehicle was near"), (alone, FOUND, "none was")):
    place.scatter(rows.x_m / 1000, rows.y_m / 1000, s=4, c=colour, alpha=0.5, lw=0, label=label)
place.set(xlim=(-extent, extent), ylim=(-extent, extent), aspect="equal")
place.set(xlabel="east (km)", ylabel="north (km)", title="Orders")
place.legend(loc="upper right", markerscale=4, frameon=True, framealpha=0.9)
far.hist(served.metres, bins=np.arange(0, 401, 20), color=LEFT, edgecolor="white")
middle = served.metres.median()
far.axvline(middle, color=INK, lw=1.5)
far.text(middle + 6, far.get_ylim()[1] * 0.96, f"median {middle:.0f} m", va="top", color=INK)
far.set(xlabel="Manhattan distance of the nearest vehicle (m)", ylabel="orders", xlim=(0, 400))
far.set_title("How far away the nearest vehicle was")
save(figure, "orders_vehicles")
spark.stop()
