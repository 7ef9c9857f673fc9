"""Pruning: leaves out pairs for which bounds of many tuples rule out a match."""
