"""Pruning: looks up the pairs that may match, in windows in the order of cells."""
