# %% [markdown]
# # Quotes that cross between two venues
#
# At two venues the same currency pair has two prices. They cross when one venue pays more than the
# other one asks: bid above ask, here by a pip (10 in prices times 100,000) or more, within half a
# second. The condition is an inequality between prices of both streams.

# %%
import numpy as np
from kit import FOUND, INK, LEFT, RIGHT, canvas, save, session, streams

from penstock import spark_bridge

paths = streams("quotes")
spark = session("crossing quotes")
tables = {name: spark.read.parquet(paths[name]) for name in ("venue_a", "venue_b")}

# %%
CROSSED = """
SELECT a.t_ms AS a_ms, b.t_ms AS b_ms, a.bid_e5 - b.ask_e5 AS sell_a, b.bid_e5 - a.ask_e5 AS sell_b
FROM venue_a a JOIN venue_b b
  ON b.t_ms BETWEEN a.t_ms - 500 AND a.t_ms + 500
 AND (a.bid_e5 - b.ask_e5 >= 10 OR b.bid_e5 - a.ask_e5 >= 10)
"""
time = {"a": "t_ms:ms", "b": "t_ms:ms"}
pairs = spark_bridge.sql(spark, CROSSED, tables, time=time, lanes=2).toPandas()
pairs = pairs.sort_values(["a_ms", "b_ms"])
pairs["pips"] = np.maximum(pairs.sell_a, pairs.sell_b) / 10
print(f"{len(pairs):,} pairs of quotes cross by a pip or more")
print(pairs.sort_values(["pips", "a_ms", "b_ms"]).tail(5).to_string(index=False))

# %% [markdown]
# Which venue is behind? The one whose old quotes are crossed by the other's new ones. Grouped on
# the device by tumbling windows of a minute, a count and the best of each:

# %%
BY_MINUTE = """
SELECT window(a.t_ms, 60000).start AS minute_ms, count(*) AS crossings,
       max(greatest(a.bid_e5 - b.ask_e5, b.bid_e5 - a.ask_e5)) AS best
FROM venue_a a JOIN venue_b b
  ON b.t_ms BETWEEN a.t_ms - 500 AND a.t_ms + 500
 AND (a.bid_e5 - b.ask_e5 >= 10 OR b.bid_e5 - a.ask_e5 >= 10)
GROUP BY window(a.t_ms, 60000)
"""
minutes = spark_bridge.sql(
    spark, BY_MINUTE, tables, time={"a": "t_ms", "b": "t_ms"}, lanes=2
).toPandas()
minutes = minutes.sort_values("minute_ms")
later = (pairs.a_ms - pairs.b_ms).to_numpy()
print(f"{len(minutes)} minutes with crossings")
print(f"venue A has the later quote in {np.mean(later > 0):.0%} of the pairs")

# %%
figure, (prices, count, lag) = canvas(9.5, 9, nrows=3, height_ratios=(1.4, 1, 1))
busiest = minutes.sort_values(["crossings", "minute_ms"]).iloc[-1].minute_ms
shown = pairs[(pairs.a_ms >= busiest) & (pairs.a_ms < busiest + 60_000)]
begin = int(shown.a_ms.min()) - 2000
for name, colour in (("venue_a", LEFT), ("venue_b", RIGHT)):
    near = f"t_ms BETWEEN {begin - 2000} AND {begin + 9000}"
    quotes = tables[name].where(near).toPandas().sort_values("t_ms")
    seconds = (quotes.t_ms - begin) / 1000
    low, high = quotes.bid_e5 / 1e5, quotes.ask_e5 / 1e5
    prices.fill_between(seconds, low, high, step="post", color=colour, alpha=0.5, lw=0)
    prices.plot([], [], color=colour, lw=6, alpha=0.5, label=f"{name}: bid to ask")
bottom = np.full(len(shown), prices.get_ylim()[0])
prices.plot((shown.a_ms - begin) / 1000, bottom, "|", color=FOUND, ms=14, label="crossed")
prices.ticklabel_format(axis="y", useOffset=False)
prices.set(xlabel=f"seconds from {begin / 1000:,.0f} s on", ylabel="price", xlim=(0, 8))
prices.set_title("In the minute with the most crossings")
prices.legend(loc="best", frameon=True, framealpha=0.9)
count.bar(minutes.minute_ms / 3_600_000, minutes.crossings, width=1 / 60, color=FOUND)
count.set(xlabel="time (h)", ylabel="crossings per minute", title="When they cross")
lag.hist(later, bins=np.arange(-500, 501, 20), color=FOUND, edgecolor="white")
lag.axvline(0, color=INK, lw=1)
lag.set(xlabel="time of A's quote minus time of B's (ms)", ylabel="pairs of quotes")
lag.set_title("Which quote is the later one")
save(figure, "quotes")
spark.stop()
