"""Hardware of Penstock, written in Amaranth, and what is exported from it."""
