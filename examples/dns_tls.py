# %% [markdown]
# # Names and connections
#
# A client asks for a name, gets an address, and opens a TLS connection to it. The join brings both
# logs together: same client, the connection goes to the address in the answer, at most a minute
# after it. What is left over is worth a look: connections to addresses that the client never asked
# for.
#
# Logs are not in order: a connection is logged when it ends. Rows here come in the order in which
# they were logged.

# %%
import tempfile

import numpy as np
import pandas as pd
from deltalake import DeltaTable
from kit import FOUND, INK, LEFT, canvas, save, session, streams

from penstock import spark_bridge

paths = streams("dns_tls")
spark = session("names and connections")

# %% [markdown]
# A left join of the two streams. A connection without an answer leaves once no answer can come any
# more: when the answers' watermark, which stays 400 s behind the latest of them, has passed it.
# `rest` is what still waits at the end.

# %%
tables = {}
for name in ("dns", "tls"):
    source = spark.readStream.format("penstock_replay").option("rowsPerBatch", 4000)
    tables[name] = source.load(paths[name])
asked = spark_bridge.stream(
    spark,
    """
    SELECT s.id, s.orig_ip, s.resp_ip, s.server_name, s.t_us, d.t_us AS answered_us
    FROM tls s LEFT JOIN dns d
      ON s.t_us BETWEEN d.t_us AND d.t_us + INTERVAL 60 SECONDS
     AND s.orig_ip = d.orig_ip AND s.resp_ip = d.answer_ip
    """,
    tables,
    time={"s": "t_us:us", "d": "t_us:us"},
    disorder=400_000_000,
    lanes=2,
)
with tempfile.TemporaryDirectory() as folder:
    writer = asked.writeStream.format("delta").trigger(availableNow=True)
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").start(f"{folder}/rows")
    query.awaitTermination()
    left = DeltaTable(f"{folder}/rows").to_pyarrow_table().to_pandas()
    waiting = asked.remaining(f"{folder}/checkpoint").toPandas()  # pyright: ignore
print(
    f"{query.recentProgress[-1]['batchId'] + 1} micro-batches gave {len(left):,} rows, "
    f"{len(waiting):,} waited at the end"
)
rows = pd.concat([left, waiting])

# %%
joined = rows[rows.answered_us.notna()]
latest = joined.groupby("id").answered_us.max()
delay_ms = (joined.groupby("id").t_us.first() - latest) / 1000
alone = rows[rows.answered_us.isna()]
print(f"{len(latest):,} connections after an answer, median {delay_ms.median():.0f} ms later")
print(f"{len(alone):,} connections without one, by client:")
by_client = alone.groupby("orig_ip")
counts = {"connections": by_client.id.count(), "servers": by_client.resp_ip.nunique()}
clients = pd.DataFrame(counts).nlargest(5, ["connections", "servers"])
clients.index = [".".join(str(int(ip) >> k & 255) for k in (24, 16, 8, 0)) for ip in clients.index]
print(clients.to_string())

# %%
figure, (wait, who) = canvas(11, 4.6, ncols=2)
bins = np.logspace(0, np.log10(60_000), 50)
wait.hist(np.clip(delay_ms, 1, None), bins=bins, color=LEFT, edgecolor="white")
wait.axvline(delay_ms.median(), color=INK, lw=1.5)
top = wait.get_ylim()[1] * 0.96
wait.text(delay_ms.median() * 1.15, top, f"median {delay_ms.median():.0f} ms", va="top", color=INK)
wait.set(xscale="log", xlabel="from the answer to the connection (ms)", ylabel="connections")
wait.set_title("How soon after its answer a connection comes")
who.barh(clients.index[::-1], clients.connections[::-1], color=FOUND)
who.set(xlabel="connections without an answer before them", title="Who never asked")
who.spines["left"].set_visible(False)
who.tick_params(axis="y", length=0)
save(figure, "dns_tls")
spark.stop()
