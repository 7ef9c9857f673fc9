"""Nodes that share the lookups in a relation: who owns which keys, and where that is written."""
