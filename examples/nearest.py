# %% [markdown]
# # The nearest stand, and the three nearest vehicles
#
# `EXACT NEAREST k BY DISTANCE` gives each row of the left side the k rows of the right side with
# the least value of an expression. Here each ride order gets the nearest of 40 taxi stands, in a
# straight line: the search takes any distance, and this one is Euclid's.

# %%
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from kit import FOUND, INK, LEFT, RIGHT, canvas, save, streams

import penstock

paths = streams("nearest")
STAND = """
SELECT o.id, o.x_m, o.y_m, s.stand
FROM orders o JOIN stands s EXACT NEAREST 1
  BY DISTANCE sqrt((o.x_m - s.x_m) * (o.x_m - s.x_m) + (o.y_m - s.y_m) * (o.y_m - s.y_m))
"""
nearest = penstock.sql(STAND, paths).to_pandas()
per_stand = nearest.stand.value_counts()
print(f"{len(nearest):,} orders; the busiest stand is nearest to {per_stand.max():,} of them")

# %% [markdown]
# Vehicles move: the nearest ones are wanted among those that told their place in the 9 s before
# the order. ON behind NEAREST says so. As a stream, an order's rows leave as soon as its window
# has closed, whatever batches the rows come in; these come up to 8 s out of order. Spark refuses
# NEAREST on streams.

# %%
VEHICLES = """
SELECT o.id, v.id AS vehicle, abs(o.x_m - v.x_m) + abs(o.y_m - v.y_m) AS metres
FROM orders o JOIN vehicles v EXACT NEAREST 3
  BY DISTANCE abs(o.x_m - v.x_m) + abs(o.y_m - v.y_m)
  ON v.t_s BETWEEN o.t_s - 9 AND o.t_s
"""
orders, vehicles = (pq.read_table(paths[name]) for name in ("orders", "vehicles"))
schemas = {"orders": orders.schema, "vehicles": vehicles.schema}
rows = []
time = {"o": "t_s:s", "v": "t_s:s"}
rows = []
with penstock.stream(VEHICLES, schemas, time=time, unique={"o": "id"}, disorder=8) as stream:
    for batch in range(60):
        for name, table in (("orders", orders), ("vehicles", vehicles)):
            begin, end = (table.num_rows * n // 60 for n in (batch, batch + 1))
            stream.push(name, table.slice(begin, end - begin))
        rows.append(stream.poll())
    rows.append(stream.close())
    late = sum(table.num_rows for table in stream.late().values())
print(f"{late} rows came more than 8 s late")
near = pa.concat_tables(rows).to_pandas().sort_values(["id", "metres", "vehicle"])
near["rank"] = near.groupby("id").cumcount() + 1
print(f"{len(near):,} rows for {near.id.nunique():,} orders; metres to the first, second, third:")
print(near.groupby("rank").metres.describe()[["25%", "50%", "75%"]].round().to_string())

# %%
figure, (city, far) = canvas(11, 5.2, ncols=2, width_ratios=(1.15, 1))
city.scatter(nearest.x_m / 1000, nearest.y_m / 1000, c=nearest.stand % 20, cmap="tab20", s=3, lw=0)
stands = pq.read_table(paths["stands"]).to_pandas()
city.plot(stands.x_m / 1000, stands.y_m / 1000, "s", color=INK, ms=4, label="stand")
city.set(xlabel="east (km)", ylabel="north (km)", title="Orders by their nearest stand")
city.set_aspect("equal")
city.legend(loc="upper right", frameon=True, framealpha=0.9)
for rank, colour in ((1, FOUND), (2, RIGHT), (3, LEFT)):
    metres = np.sort(near[near["rank"] == rank].metres)
    far.plot(metres / 1000, np.linspace(0, 100, len(metres)), color=colour, label=f"number {rank}")
far.set(xlabel="distance by streets (km)", ylabel="% of the orders", xlim=(0, 5))
far.set_title("How far the three nearest vehicles are")
far.legend(frameon=False, loc="lower right")
save(figure, "nearest")
