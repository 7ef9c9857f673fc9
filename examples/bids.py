# %% [markdown]
# # Who leads each auction, on processes that may be killed
#
# For each minute and auction: how many bids there were, the highest price, and who offered it. Rows
# arrive on one live stream, up to 2 s out of order. Two worker processes group them; they fold rows
# where they come, and ship only changes of groups.

# %%
import os
import signal
import tempfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from kit import FOUND, INK, LEFT, canvas, save, streams

import penstock

bids = pq.read_table(streams("bids")["bids"])
folder = tempfile.TemporaryDirectory()

# %% [markdown]
# A group leaves when no row of its minute can come any more: 2 s after its end, by the times of the
# rows. With a checkpoint it leaves once the checkpoint that covers it is on disk; here that is
# every second.

# %%
LEADERS = """
SELECT auction, window(t, '60 seconds').start AS minute, count(*) AS bids, max(price) AS price,
       max_by(bidder, price) AS leader
FROM bids GROUP BY auction, window(t, '60 seconds')
"""
stream = penstock.stream(
    LEADERS,
    {"bids": bids.schema},
    flow=penstock.Flow(latency_s=0.25, disorder=2_000),
    workers=2,
    checkpoint=penstock.Checkpoint(folder.name, every_s=1),
)
