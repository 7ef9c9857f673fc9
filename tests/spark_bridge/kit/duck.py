"""What DuckDB makes of a query: an engine that has no code in common with ours."""

from __future__ import annotations

import re
from collections.abc import Mapping

import duckdb
import pyarrow as pa

_EXISTENCE = re.compile(r"LEFT (SEMI|ANTI) JOIN b ON (.*?)(?: WHERE (.*))?$")


def by_duckdb(text: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The rows of a join of whole tables ``a`` and ``b``."""
    with duckdb.connect() as connection:
        for name, rows in tables.items():
            connection.register(name, rows)
        return connection.sql(_EXISTENCE.sub(_exists, text)).to_arrow_table()


def _exists(found: re.Match[str]) -> str:
    """A semi or anti join as WHERE.

    DuckDB 2.0's own SEMI JOIN leaves rows out where all conditions are inequalities.
    """
    kind, on, where = found.groups()
    exists = f"{'NOT ' * (kind == 'ANTI')}EXISTS (SELECT 1 FROM b WHERE {on})"
    return f"WHERE {exists}" + (f" AND ({where})" if where else "")
