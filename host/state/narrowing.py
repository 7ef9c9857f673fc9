"""Narrower types of columns, by which more expressions fit machine integers.

By its type, the start of a window over an int64 may exceed int64; by actual values it never does.
So a loop is compiled for columns within bounds, and a batch beyond them is computed column by
column. A loop for columns without NULL computes no validity.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.expr import ops
from penstock.expr.node import Expr, Op, node, transform, walk
from penstock.expr.ops.remake import remake

#: Bits of columns that are tried, the widest first; None leaves them as they are.
_BITS: tuple[int | None, ...] = (None, 62, 53, 47, 40, 31)
#: A column and its bounds.
Bounds = dict[Expr, tuple[int, int]]


def narrowed(
    roots: Sequence[Expr], *, without_null: bool = False
) -> tuple[Callable[[Expr], Expr], Bounds]:
    """Choose the widest bounds of columns for which most of the expressions fit int64.

    Parameters
    ----------
    without_null : bool
        Whether columns have no NULL, whatever their types say.

    Returns
    -------
    rewrite : callable
        Returns an expression with its columns' types narrowed.
    bounds : dict of column to (int, int)
        Of the columns that were narrowed, as ``roots`` has them; both included.
    """
    wide = {
        leaf
        for root in roots
        if any(map(_is_wide, walk(root)))
        for leaf in walk(root)
        if leaf.op is Op.COLUMN and leaf.type.is_integral and 32 < leaf.type.signed_bits <= 64
    }
    best: tuple[Callable[[Expr], Expr], Bounds] | None = None
    fewest = -1
    for bits in _BITS:
        bounds: Bounds = {}
        if bits is not None:
            ends = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
            bounds = {c: (max(c.type.lo, ends[0]), min(c.type.hi, ends[1])) for c in wide}
        rewrite = _rewriting(bounds, without_null)
        try:
            beyond = sum(bool(n.args) and _is_wide(n) for n in walk(*map(rewrite, roots)))
        except ops.ExprTypeError:
            continue
        if best is None or beyond < fewest:
            best, fewest = (rewrite, bounds), beyond
        if not beyond:
            break
    assert best is not None
    return best


def _rewriting(bounds: Bounds, without_null: bool) -> Callable[[Expr], Expr]:
    if not bounds and not without_null:
        return lambda expr: expr

    def rule(current: Expr, args: tuple[Expr, ...]) -> Expr:
        if current.op is not Op.COLUMN:
            return remake(current, args)
        dtype = current.type.within(*bounds[current]) if current in bounds else current.type
        if without_null:
            dtype = dtype.as_nullable(False)
        return current if dtype == current.type else node(Op.COLUMN, (), dtype, current.attr)

    return lambda expr: transform(expr, rule)


def _is_wide(expr: Expr) -> bool:
    return expr.type.is_integral and expr.type.signed_bits > 64
