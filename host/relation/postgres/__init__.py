"""Relations that are tables of a PostgreSQL server: asked for keys, or read by ranges of blocks."""

from __future__ import annotations

from .relation import PostgresRelation

__all__ = ["PostgresRelation"]
