# %% [markdown]
# # From two files to a live page
#
# Two Parquet files, one join, and what Penstock says of it: the plan before it runs, what happened
# when it ran, what could be better, and the same query as a stream with a page to watch it on.

# %%
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
from kit import FOUND, INK, LEFT, canvas, save, streams

import penstock

paths = streams("two_files")
NEAR = """
SELECT o.id, g.vehicle, o.lon, o.lat, g.lon AS g_lon, g.lat AS g_lat
FROM orders o JOIN gps g
  ON abs(o.lon - g.lon) + abs(o.lat - g.lat) < 100
 AND g.ts BETWEEN o.ts - INTERVAL 1 MINUTE AND o.ts
"""

# %% [markdown]
# The plan, from the query and the files, before anything is joined. A notebook draws it; `print`
# gives it as text, and `plan.html()` as a page of its own.

# %%
plan = penstock.explain(NEAR, paths)
print(" > ".join(node.title for node in plan.nodes))

# %%
plan  # noqa: B018  # pyright: ignore[reportUnusedExpression]

# %% [markdown]
# The run. Nothing is to be said of it. Another query, in which an order and a vehicle match where
# their numbers add up to whole hundreds, tests each pair: a finding says so, and what to write.
# Written as an equality, the same condition is searched by key.

# %%
rows = penstock.sql(NEAR, paths)
print(f"{rows.num_rows:,} pairs nearby")
IN_TURN = """SELECT o.id, g.vehicle FROM orders o JOIN gps g
ON {} AND g.ts BETWEEN o.ts - INTERVAL 1 MINUTE AND o.ts"""
mixed = IN_TURN.format("(o.id + g.vehicle) % 100 = 0")
by_key = IN_TURN.format("o.id % 100 = (100 - g.vehicle % 100) % 100")
for query in (mixed, by_key):
    findings = penstock.explain(query, paths, analyze=True).findings
    of_search = [str(finding) for finding in findings if finding.rule == "last comparison"]
    print(f"{penstock.sql(query, paths).num_rows:,} pairs:", *of_search or ["searched by key"])

# %% [markdown]
# The same query on streams: rows in, rows out, whatever the batches. `stream.page()` serves a page
# with rates, watermarks, lanes, latency and findings while it runs; `page.url` is for a browser.

# %%
orders, gps = (pq.read_table(paths[name]) for name in ("orders", "gps"))
parts = []
with penstock.stream(
    NEAR, {"orders": orders.schema, "gps": gps.schema}, disorder=timedelta(seconds=8)
) as stream:
    page = stream.page()
    for batch in range(20):
        for name, table in (("orders", orders), ("gps", gps)):
            begin, end = (table.num_rows * n // 20 for n in (batch, batch + 1))
            stream.push(name, table.slice(begin, end - begin))
        parts.append(stream.poll())
    parts.append(stream.close())
    arrived = sum(stream.report().arrived.values())
    print(f"{arrived:,} rows came; the page is at {page.url.rpartition(':')[0]}")
streamed = pa.concat_tables(parts)
print("the same pairs:", streamed.num_rows == rows.num_rows)

# %%
figure, (city,) = canvas(6.4, 5.6)
found = streamed.to_pandas()
city.plot(orders["lon"], orders["lat"], ".", ms=1, color=LEFT, label="orders")
city.plot(found.lon, found.lat, ".", ms=3, color=FOUND, label="with a vehicle nearby")
city.set(xlabel="longitude (1e-5 degrees)", ylabel="latitude", title="Orders near a vehicle")
city.ticklabel_format(useOffset=False, style="plain")
city.legend(loc="upper right", labelcolor=INK)
save(figure, "two_files")
