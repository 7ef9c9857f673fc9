"""Whether Penstock computes an expression."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from sqlglot import exp

from ..errors import QueryError, SchemaError
from ..plan.query import LEFT, RIGHT
from ..zones import zone_of
from .options import QueryOptions
from .scope import Scope
from .sources import SourceReader
from .time_rules import TimeRules


def reader_of(schemas: Mapping[str, pa.Schema], options: QueryOptions) -> SourceReader:
    """Make the reader of the items of FROM for a query around joins."""
    rules = TimeRules(zone_of("UTC" if options.time_zone is None else options.time_zone))
    return SourceReader(schemas, {}, options.params or {}, options.functions or {}, rules, {})


class Lowered:
    """The expressions of one or two tables that can be lowered.

    Parameters
    ----------
    schemas : mapping of alias to Schema
        Of the left side, and of the right one if there is one.
    """

    def __init__(self, schemas: Mapping[str, pa.Schema], options: QueryOptions) -> None:
        self._reader = reader_of(schemas, options)
        tables = [exp.Table(this=exp.to_identifier(name, quoted=True)) for name in schemas]
        sides = zip(tables, (LEFT, RIGHT), strict=False)
        scope = Scope(tuple(self._reader.read(table, side) for table, side in sides))
        self._lowering = self._reader.lowering(scope)

    def knows(self, tree: exp.Expr) -> bool:
        """Whether it is a condition or value that can be computed."""
        return self.refusal(tree) is None

    def refusal(self, tree: exp.Expr) -> QueryError | SchemaError | None:
        """Why a condition or value cannot be computed; None if it can."""
        try:
            self._lowering.lower(tree)
        except (QueryError, SchemaError) as error:
            return error
        return None
