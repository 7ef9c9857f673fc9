"""The text that DuckDB gets of a query, and the expressions that it calls."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from sqlglot import exp

from penstock.around.duckdb_sql import to_duckdb
from penstock.around.qualified import qualified
from penstock.expr.node import Expr
from penstock.query.options import QueryOptions


def text_and_calls(tree: exp.Query, schemas: Mapping[str, pa.Schema]) -> tuple[str, list[str]]:
    """The text of all of a query, and what each function in it computes, of which type."""
    calls: list[str] = []

    def register(made: Expr, leaves: tuple[Expr, ...]) -> str:
        calls.append(f"{made}: {made.type}")
        return f"ps_computed_{len(calls) - 1}"

    whole = qualified(tree, schemas)
    text, outputs = to_duckdb(whole, schemas, QueryOptions(), register)
    return text, [*calls, *(f"{name}: {known}" for name, known in outputs.items())]
