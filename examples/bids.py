# %% [markdown]
# # Who leads each auction, on processes that may be killed
#
# For each auction and minute: how many bids there were, the highest price, and who offered it. Bids
# come on one live stream, up to 2 s out of order. Two worker processes group them: each folds the
# rows that it is given into groups of its own, and ships only what has changed.

# %%
import os
import signal
import tempfile
from datetime import timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from kit import FOUND, INK, LEFT, RIGHT, canvas, save, streams

import penstock

bids = pq.read_table(streams("bids")["bids"])
folder = tempfile.TemporaryDirectory()

# %% [markdown]
# A group is complete when no row of its minute can come any more: 2 s after its end, by the times
# of the rows. It leaves once the checkpoint that covers it is on disk.

# %%
LEADERS = """
SELECT auction, window(t, '1 minute').start AS minute, count(*) AS bids, max(price) AS price,
       max_by(bidder, price) AS leader
FROM bids GROUP BY auction, window(t, '1 minute')
"""
stream = penstock.stream(
    LEADERS,
    {"bids": bids.schema},
    disorder=timedelta(seconds=2),
    workers=2,
    checkpoint=penstock.Checkpoint(folder.name, every_s=0.5),
    flow=penstock.Flow(latency_s=0.25),
)

# %% [markdown]
# Half-way, one of the workers is killed. All begin again from the last checkpoint, and bids since
# then are dealt again from memory. Rows come under the number of the checkpoint that covers them: a
# sink that gets a number again would replace it. Each `poll` says that those before have arrived.

# %%
BATCH = 5_000
parts: dict[int, pa.Table] = {}


def take(polled) -> bool:
    """Keep the rows of a checkpoint, once, if there are any."""
    if polled is None:
        return False
    parts[polled.number] = polled.rows
    return True


for first in range(0, len(bids), BATCH):
    if first == len(bids) // 2:
        os.kill(stream.processes[1], signal.SIGKILL)
    stream.push("bids", bids.slice(first, BATCH))
    take(stream.poll())
stream.flush()
lost = stream.failures()["workers"]
print(f"workers lost: {lost}")
take(stream.close())
while take(stream.poll()):
    pass
folder.cleanup()
groups = pa.concat_tables(parts.values()).to_pandas()
groups = groups.sort_values(["minute", "auction"], ignore_index=True)

# %% [markdown]
# The same by pandas, from all rows at once. At equal prices, the earlier bid leads.

# %%
whole = bids.to_pandas()
whole["minute"] = whole.t.dt.floor("min").dt.tz_localize(None)
by = whole.groupby(["minute", "auction"])
best = whole.sort_values("t", kind="stable").sort_values("price", ascending=False, kind="stable")
wanted = pd.DataFrame(
    {
        "bids": by.size(),
        "price": by.price.max(),
        "leader": best.groupby(["minute", "auction"]).bidder.first(),
    }
).reset_index()
print("minute  auctions    bids  highest price  as by pandas")
for minute, own in groups.groupby("minute"):
    other = wanted[wanted.minute == minute].reset_index(drop=True)
    same = own.reset_index(drop=True)[other.columns].astype("int64").equals(other.astype("int64"))
    price = f"{own.price.max() / 100:14,.2f}"
    print(f"{minute:%H:%M} {len(own):10,} {own.bids.sum():7,} {price}  {'yes' if same else 'NO'}")

# %%
figure, (shares, prices) = canvas(10, 4.2, ncols=2)
per_auction = np.sort(groups.groupby("auction").bids.sum().to_numpy())[::-1]
total = 20_000  # auctions, some of them without a bid
share = np.concatenate([[0], per_auction.cumsum() / per_auction.sum()])
shares.plot(np.arange(len(share)) / total, share, color=LEFT)
shares.plot([0.2, 0.2, 0], [0, 0.8, 0.8], color=INK, lw=0.8, ls="--")
shares.set(
    xlabel="share of auctions",
    ylabel="share of bids",
    title="A fifth of the auctions has most bids",
)
shares.set(xlim=(0, 1), ylim=(0, 1))
prices.scatter(groups.bids, groups.price / 100, s=5, color=RIGHT, alpha=0.3, lw=0)
count = np.geomspace(1, groups.bids.max(), 200)
prices.plot(count, 10 ** (6 * count / (count + 1)), color=FOUND, label="expected of so many bids")
prices.set(xscale="log", yscale="log", xlabel="bids of a minute", ylabel="highest price")
prices.set_title("The more bids, the higher the price")
prices.legend(loc="lower right")
save(figure, "bids")
