"""Rewriting of short forms of SQL into longer ones after parsing: no other module knows them."""

from __future__ import annotations

from sqlglot import exp

from .dialect import refused

#: Nodes below which a NOT needs no parentheses.
_LOOSE = (exp.Connector, exp.Where, exp.Join, exp.Having, exp.Paren, exp.Alias, exp.Select)


def plain(tree: exp.Expr) -> exp.Expr:
    """Rewrite short forms in the tree itself.

    ``x NOT LIKE 'a%'`` becomes ``NOT x LIKE 'a%'``: some releases of the parser keep the NOT in
    the node itself. ``LIKE ANY`` and ``LIKE ALL`` become OR and AND, and so does ``BETWEEN
    SYMMETRIC``, whose bounds have any order.
    """
    for node in list(tree.find_all(exp.Like, exp.ILike, exp.Is)):
        is_not = bool(node.args.pop("negate", False))
        if isinstance(node.expression, exp.Any | exp.All):
            _spread(node, is_not=is_not)
        elif is_not:
            # ESCAPE is around the LIKE that it belongs to.
            _wrap(node.parent if isinstance(node.parent, exp.Escape) else node, exp.Not)
    for node in list(tree.find_all(exp.Between)):
        if node.args.pop("symmetric", False):
            x, low, high = (node.args[key] for key in ("this", "low", "high"))
            other = exp.Between(this=x.copy(), low=high.copy(), high=low.copy())
            node.replace(exp.paren(exp.or_(node.copy(), other, copy=False), copy=False))
    return tree


def _spread(node: exp.Expr, *, is_not: bool) -> None:
    """Replace LIKE ANY or LIKE ALL by one LIKE for each pattern.

    Raises
    ------
    QueryError
        This release of the parser does not tell ``NOT x LIKE ANY`` from ``x NOT LIKE ANY``.
    """
    several = node.expression
    if isinstance(node.parent, exp.Not) and "negate" not in node.arg_types:
        raise refused("NOT with LIKE ANY or LIKE ALL needs sqlglot 30.30 or later", node.parent)
    patterns = several.this.expressions or [several.this.unnest()]
    parts: list[exp.Expr] = [type(node)(this=node.this.copy(), expression=p) for p in patterns]
    if is_not:
        parts = [exp.Not(this=part) for part in parts]
    join = exp.or_ if isinstance(several, exp.Any) else exp.and_
    node.replace(exp.paren(join(*parts, copy=False), copy=False))


def _wrap(node: exp.Expr, around: type[exp.Expr]) -> None:
    """Wrap a node in another one, in the tree itself."""
    parent = node.parent
    wrapper = around()
    node.replace(wrapper)
    wrapper.set("this", node)
    if parent is not None and not isinstance(parent, _LOOSE):
        wrapper.replace(exp.Paren(this=wrapper))
