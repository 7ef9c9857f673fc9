# %% [markdown]
# # The demo
#
# An hour of a city: ride orders, and positions of vehicles. Which vehicles were near an order, at
# most 180 s before or after it? `make run` sets everything up and joins them on the CPU, from
# Spark, and a slice of them in simulated hardware, compares the rows, and draws what happened.

# %%
from kit import shell, show

print(shell("penstock demo"))
show("demo", "build/demo")
