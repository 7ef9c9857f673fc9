"""NEAREST, by which a join keeps the nearest rows of each left row: its checks, and its value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from ..expr.node import Expr
from ..plan.query import Nearest
from ..types import FLOATING, INTEGRAL, Kind
from .dialect import CLAUSE, COUNT, NEAREST, refused, snippet

if TYPE_CHECKING:
    from .expressions import Lowering

#: Most rows that NEAREST gives of each row, as in Spark.
MOST_NEAREST = 100_000
#: Kinds of values that say how near a row is.
_ORDERED = INTEGRAL | FLOATING | {Kind.BOOL, Kind.NULL}
#: Values of more than one pair of rows.
_NO_VALUES = (exp.AggFunc, exp.Window, exp.Query, exp.Explode)


def check_nearest(tree: exp.Expr) -> None:
    """Refuse a NEAREST that is wrong whatever columns the tables have.

    Raises
    ------
    QueryError
    """
    for item in tree.find_all(exp.Table, exp.Subquery):
        if CLAUSE in item.meta:
            raise refused("NEAREST stands behind JOIN and its table, without parentheses", item)
    for join in tree.find_all(exp.Join):
        if join.args.get(NEAREST) is None:
            continue
        words = " ".join(str(join.args.get(key) or "") for key in ("method", "side", "kind"))
        kind = " ".join(words.upper().replace("OUTER", "").split())
        if kind not in ("", "INNER", "LEFT"):
            raise refused(f"NEAREST is for INNER and LEFT JOIN, not for {kind} JOIN", join)
        if join.args.get("using"):
            raise refused("NEAREST takes ON, not USING", join)
        if isinstance(join.this, exp.Lateral):
            raise refused("NEAREST is not for LATERAL; its own ON has conditions", join)
        count = join.args[COUNT]
        if not count.name.isdecimal() or not 1 <= int(count.name) <= MOST_NEAREST:
            wanted = f"NEAREST gives 1 to {MOST_NEAREST:,} rows of each row, not {snippet(count)}"
            raise refused(f"{wanted}: write such a number", join)
        several = join.args[NEAREST].find(*_NO_VALUES)
        if several is not None:
            raise refused(
                "the value of NEAREST is about one pair of rows; compute a value of several rows "
                "in a subquery of FROM",
                several,
            )


def read_nearest(join: exp.Join, lowering: Lowering) -> Nearest | None:
    """Read NEAREST; None if the join has none.

    Raises
    ------
    QueryError
        Its value has no order that a distance has.
    """
    ordered = join.args.get(NEAREST)
    if ordered is None:
        return None
    value: Expr = lowering.lower(ordered.this)
    if value.type.kind not in _ORDERED:
        words = "SIMILARITY" if ordered.args.get("desc") else "DISTANCE"
        raise refused(
            f"{words} needs a number or a time, not {value.type}: CAST it, or compute one",
            ordered.this,
        )
    is_greatest, nulls_first = bool(ordered.args.get("desc")), ordered.args.get("nulls_first")
    return Nearest(int(join.args[COUNT].name), value, is_greatest, nulls_first)
