"""Contracts of the join pipeline's blocks, proved; ``python -m penstock.hw.formal`` lists them."""
