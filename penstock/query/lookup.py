"""Checks of a query that looks up rows of a relation."""

from __future__ import annotations

from ..errors import QueryError
from ..plan.query import LEFT, RIGHT, JoinKind
from .scope import Source
from .statement import Statement


def stream_side(statement: Statement, relation: str) -> str:
    """The side that is not the relation.

    Raises
    ------
    QueryError
        Both or none of the tables are the relation.
    """
    inner, _ = _sides(statement, relation)
    return RIGHT if inner is statement.sources[0] else LEFT


def check_lookup(statement: Statement, name: str, *, is_above: bool) -> None:
    """Refuse what cannot be answered row by row of the stream.

    Parameters
    ----------
    is_above : bool
        Whether the pairs are grouped, not each row of the stream over its matches: then the stream
        has an event time.

    Raises
    ------
    QueryError
        Both or none of the tables are the relation, one has ROWS, rows of the relation would have
        to leave without a match, or groups are not of the stream's rows.
    """
    relation, stream = _sides(statement, name)
    for source in statement.sources:
        if source.rows is not None:
            raise QueryError(
                f"{source.alias} has ROWS, but a join with a relation has no window; leave it out"
            )
    side = LEFT if relation is statement.sources[0] else RIGHT
    kind = statement.kind
    if side in kind.unmatched or (kind.is_existence and side == LEFT):
        remedy = (
            f"write {stream.alias} on the left"
            if kind in (JoinKind.SEMI, JoinKind.ANTI)
            else f"preserve {stream.alias} instead"
        )
        raise QueryError(
            f"this {kind.value} JOIN gives rows of the relation {relation.alias} by whether they "
            f"match, which is known only once {stream.alias} has ended; {remedy}, or join "
            f"{relation.alias} as a table with a window"
        )
    groups = statement.aggregation
    if groups is not None and not is_above and groups.side != (RIGHT if side == LEFT else LEFT):
        raise QueryError(
            f"groups of a join with a relation are of rows of {stream.alias}: group by columns of "
            f"{stream.alias} only, or aggregate the rows that the join gives"
        )


def _sides(statement: Statement, name: str) -> tuple[Source, Source]:
    """The relation and the stream."""
    left, right = statement.sources
    are = [source.table.lower() == name.lower() for source in (left, right)]
    if all(are):
        raise QueryError(f"both inputs are the relation {name}; one of them must be a stream")
    if not any(are):
        raise QueryError(f"the query does not name the relation {name}")
    return (left, right) if are[0] else (right, left)
