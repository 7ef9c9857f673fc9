# %% [markdown]
# # Figures of the papers
#
# Each picture is drawn by the command above it, often in its short form; without `--quick` runs are
# longer. What the paper says is grey: the texts give few numbers, so most of their curves are not
# here. Tables of what was measured, with targets, are on the pages that are linked.
#
# ## 1. FJoin
#
# Lin, Chen, Jin; Sci Sin Inform 2022. Figures 7 to 9 from units behind our host, which are
# simulated: they take the cycles of the hardware at 300 MHz.
# [Performance](../joins/performance.md).

# %%
from kit import shell, show

shell("python -m bench.host --quick")
show("host_over_time", "build/bench/quick")
show("host_throughput", "build/bench/quick")
show("host_latency", "build/bench/quick")

# %% [markdown]
# ## 2. Slash
#
# Del Monte, Zeuch, Rabl, Markl: Rethinking Stateful Stream Processing with RDMA, 2022. CPU time
# is measured on workers of one machine; what it would give on the paper's nodes is projected, and
# dotted. [Its workloads](../papers/slash.md), [channels](../inside/channel.md).

# %%
shell("python -m bench.workers --quick --only scaling --only cost")
show("workers_9a", "build/bench/quick")
show("workers_10c", "build/bench/quick")
show("workers_10d", "build/bench/quick")
show("workers_11", "build/bench/quick")

# %%
shell("python -m bench.channel --quick")
show("channel_10a", "build/bench/quick")
show("channel_10b", "build/bench/quick")

# %% [markdown]
# ## 3. Key splitting
#
# Fang, Wang, Zhang, Zhou: High-performance data distribution algorithm on distributed stream
# systems, 2017. Its text has no values, but claims; the command prints which of them hold.
# [Lanes by key](../spark/routing.md).

# %%
shell("python -m bench.routing.figures")
show("routing_3", "build/bench")
show("routing_6", "build/bench")
show("routing_7", "build/bench")
show("routing_8", "build/bench")

# %% [markdown]
# ## 4. The window-join operator
#
# Miyoshi, Terada, Kawashima, Yoshinaga: Realizing Window Join Operator by Using FPGA, 2011.
# Cycles of the exported Verilog, counted by Verilator.
# [The operator](../hardware/window-operator.md).

# %%
shell("python -m bench.window --quick")
show("window_input", "build/bench/quick")
show("window_output", "build/bench/quick")
show("window_admitted", "build/bench/quick")

# %% [markdown]
# ## 5. D-CACHEJOIN
#
# Zhang, Liu, Du, Lu: a join of a stream with a stored table through caches. Ways of looking up
# beside each other, with the same memory. [Look-ups](../streams/lookup.md).

# %%
shell("python -m bench.lookup --quick")
show("lookup_lengths", "build/bench/quick")
show("lookup_memory", "build/bench/quick")
show("lookup_shares", "build/bench/quick")
