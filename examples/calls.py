# %% [markdown]
# # Calls priced by the tariff of their caller
#
# Each call is priced by the tariff of who calls. Tariffs are a stored table, a *relation*: it may
# be much larger than memory, and it changes while calls arrive. Each call meets one version of it,
# the newest one when the call came.

# %%
import tempfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from kit import FOUND, INK, LEFT, RIGHT, canvas, save, streams

import penstock
from penstock.host.relation import RelationOptions, build

paths = streams("calls")
calls, tariffs = (pq.read_table(paths[name]) for name in ("calls", "tariffs"))
folder = tempfile.TemporaryDirectory()
stored = build(tariffs, f"{folder.name}/tariffs.rel", RelationOptions(key=("subscriber",)))
print(f"version {stored.newest()} has {stored.version().rows:,} rows")

# %% [markdown]
# No window: a call may meet any row of the relation. The first seconds are free, and calls from
# numbers that have no tariff are kept without a price. The join gets 1 MiB of memory, about a tenth
# of the relation's bytes; tariffs of who calls often stay there.

# %%
PRICED = """
SELECT c.id, c.subscriber, t.edition, t.cents * (c.seconds - t.free_s) AS price
FROM calls c LEFT JOIN tariffs t ON c.subscriber = t.subscriber AND c.seconds > t.free_s
"""
join = penstock.stream(
    PRICED,
    {"calls": calls.schema, "tariffs": penstock.relation(stored.name)},
    flow=penstock.Flow(latency_s=0.25, memory_bytes=1 << 20),
)

# %% [markdown]
# A new edition of some tariffs comes after every second batch of calls, when these calls are on
# their way already: they still meet the edition before. `update` replaces the rows of its keys in a
# new version, and no version ever changes. Many updates are merged into new pages, which is a
# version, too, with the same rows.

# %%
BATCH = 10_000


def revised(edition: int) -> pa.Table:
    """One in eight tariffs, each dearer by two cents."""
    rows = tariffs.to_pandas()
    rows = rows[rows.subscriber % 8 == edition]
    rows = rows.assign(cents=rows.cents + 2, edition=edition)
    return pa.Table.from_pandas(rows, tariffs.schema, preserve_index=False)


versions = {stored.newest(): tariffs.to_pandas().set_index("subscriber")}
priced, met = [], []
for batch, at in enumerate(range(0, len(calls), BATCH)):
    met.append(stored.newest())
    join.push("calls", calls.slice(at, BATCH))
    if batch % 2:
        new = revised(edition=batch // 2 + 1)
        stored.update(new)
        # The same here, to compare.
        new = new.to_pandas().set_index("subscriber")
        versions[stored.newest()] = pd.concat([versions[met[-1]].drop(new.index), new])
    join.flush()
    priced.append(join.poll().to_pandas().sort_values("id", ignore_index=True))
seen = join.report().lookup
join.close()
hits = seen.hits / seen.sought  # pyright: ignore[reportOptionalMemberAccess]
print(f"about {round(hits, 1):.0%} of the keys were found in memory")

# %%
print("batch  version    calls  without price  newest edition       cents  by its version")
for batch, (rows, version) in enumerate(zip(priced, met, strict=True)):
    own = calls.slice(batch * BATCH, BATCH).to_pandas().sort_values("id", ignore_index=True)
    tariff = versions[version].reindex(own.subscriber).reset_index()
    charged = own.seconds > tariff.free_s
    wanted = (tariff.cents * (own.seconds - tariff.free_s)).where(charged)
    same = rows.price.fillna(-1).equals(wanted.fillna(-1))
    counts = f"{len(rows):8,} {int(rows.price.isna().sum()):14,} {rows.edition.max():15.0f}"
    print(f"{batch:5} {version:8} {counts} {rows.price.sum():11,.0f}  {'yes' if same else 'NO'}")

# %%
figure, (editions, income) = canvas(10, 4.2, ncols=2)
colours = (LEFT, RIGHT, FOUND, INK)
bottom = np.zeros(len(priced))
for edition, colour in enumerate(colours):
    share = np.array([(rows.edition == edition).sum() for rows in priced])
    label = f"edition {edition}"
    editions.bar(range(len(priced)), share, bottom=bottom, color=colour, label=label)
    bottom += share
editions.set(xlabel="batch", ylabel="calls", title="Editions of the tariffs that calls met")
editions.legend(loc="lower left", frameon=True, framealpha=0.9)
mean = [rows.price.mean() for rows in priced]
income.step(range(len(priced)), mean, where="mid", color=FOUND)
income.set(xlabel="batch", ylabel="cents per priced call", title="What a call costs")
save(figure, "calls")
stored.close()
folder.cleanup()
