# %% [markdown]
# # Intervals that overlap
#
# A sequencer gives reads, short pieces of chromosomes; an annotation gives genes, which are
# intervals, too. Which reads lie on which genes is a join by equal chromosome and overlap. Genes
# are from a few hundred to a million bases long: a search by one end of an interval alone would
# look at nearly all of them.

# %%
import numpy as np
from kit import FOUND, LEFT, RIGHT, canvas, save, streams

import penstock

tables = streams("intervals")
OVERLAP = "r.chrom = g.chrom AND r.start < g.stop AND g.start < r.stop"
pairs = penstock.sql(f"SELECT r.id, g.gene FROM reads r JOIN genes g ON {OVERLAP}", tables)
print(f"{pairs.num_rows:,} reads on genes")

# %% [markdown]
# Counts a gene, without the pairs: the device adds while it looks. LEFT JOIN keeps genes that no
# read lies on, with a count of zero.

# %%
COUNTS = f"""
SELECT g.gene, g.chrom, g.start, g.stop, count(r.id) AS hits
FROM genes g LEFT JOIN reads r ON {OVERLAP}
GROUP BY g.gene, g.chrom, g.start, g.stop
"""
counts = penstock.sql(COUNTS, tables).to_pandas()
print(f"{sum(counts.hits == 0):,} of {len(counts):,} genes have no read")
most = counts.sort_values(["hits", "gene"], ascending=[False, True])
print(most.head(5).to_string(index=False))

# %% [markdown]
# Genes of which one holds the other one whole, on the same chromosome: the table is joined with
# itself, by two inequalities.

# %%
NESTED = """
SELECT o.gene AS outside, i.gene AS inside
FROM genes o JOIN genes i
  ON o.chrom = i.chrom AND o.start <= i.start AND i.stop <= o.stop AND o.gene <> i.gene
"""
nested = penstock.sql(NESTED, tables).to_pandas()
holding = nested.outside.value_counts()
print(f"{len(nested):,} genes inside others; {holding.max()} inside gene {holding.idxmax()}")

# %%
figure, (lengths, density) = canvas(11, 4.4, ncols=2)
size = counts.stop - counts.start
lengths.scatter(size, counts.hits, s=3, color=LEFT, lw=0, alpha=0.5)
lengths.set(xscale="log", yscale="symlog", xlabel="bases of a gene", ylabel="reads on it")
lengths.set_title("Long genes have more reads")
lengths.set_ylim(bottom=-0.5)
first = counts[counts.chrom == 1]
bins = np.linspace(0, first.stop.max(), 200)
middles = (first.start + first.stop) / 2
for weights, colour, label in ((None, RIGHT, "genes"), (first.hits, FOUND, "reads on genes")):
    bars, _ = np.histogram(middles, bins, weights=weights)
    density.step(bins[1:] / 1e6, bars / bars.max(), color=colour, lw=1, label=label)
density.set(xlabel="place on chromosome 1 (million bases)", ylabel="share of the largest")
density.set_title("Where they are")
density.legend(frameon=False)
save(figure, "intervals")
