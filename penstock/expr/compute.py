"""Compute a value for every node of a DAG, and keep each only as long as another needs it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Generic, TypeVar

from .node import Expr, Op, walk

T = TypeVar("T")

#: Operations that take up their operands one by one, and how many each step takes.
_STEPWISE = {Op.AND: 1, Op.OR: 1, Op.LEAST: 1, Op.GREATEST: 1, Op.CASE: 2}


def compute(
    root: Expr, rule: Callable[[Expr, Sequence[T]], T], shared: dict[Expr, T | None] | None = None
) -> T:
    """Compute the root by ``rule(node, values of its operands)``, operands first.

    The values of nodes in ``shared`` are kept there: None is a value still to compute.

    AND, OR, LEAST, GREATEST and CASE take many operands one by one, so that a thousand values are
    never in memory together: the rule is called for the first two operands, then for its result and
    the third, and so on; for CASE from the end, with a condition, its value and the ELSE value so
    far.
    """
    uses = dict(_uses(root))
    shared = {} if shared is None else shared
    done: dict[Expr, T] = {}
    open_nodes = [_Open(root, rule)]
    while True:
        current = open_nodes[-1]
        if not current.waiting:
            open_nodes.pop()
            value = current.value()
            if current.expr in shared:
                shared[current.expr] = value
            if not open_nodes:
                return value
            done[current.expr] = value
        elif (known := shared.get(current.waiting[-1])) is not None:
            current.waiting.pop()
            current.take(known)
        elif (arg := current.waiting[-1]) in done:
            current.waiting.pop()
            uses[arg] -= 1
            current.take(done[arg] if uses[arg] else done.pop(arg))
        else:
            open_nodes.append(_Open(arg, rule))


@lru_cache(maxsize=256)
def in_common(roots: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The nodes that more than one of the roots needs."""
    uses = Counter(node for root in roots for node in walk(root))
    return tuple(node for node, count in uses.items() if count > 1 and not node.is_const)


@lru_cache(maxsize=256)
def _uses(root: Expr) -> Counter[Expr]:
    """Count how often each node is an operand; cached, since a stream evaluates the same roots."""
    return Counter(arg for node in walk(root) for arg in node.args)


class _Open(Generic[T]):
    """A node that waits for operands.

    ``waiting`` has the operands to compute, the next one last; ``pending`` the values that are not
    yet in ``so_far``.
    """

    def __init__(self, expr: Expr, rule: Callable[[Expr, Sequence[T]], T]) -> None:
        self.expr = expr
        self.rule = rule
        self.waiting = list(expr.args if expr.op is Op.CASE else reversed(expr.args))
        self.pending: list[T] = []
        self.so_far: T | None = None

    def take(self, operand: T) -> None:
        self.pending.append(operand)
        step = _STEPWISE.get(self.expr.op)
        if step is None:
            return
        if self.so_far is None:
            self.so_far = self.pending.pop()
        elif len(self.pending) == step:
            before = [self.so_far]
            operands = self.pending[::-1] + before if step > 1 else before + self.pending
            self.so_far = self.rule(self.expr, operands)
            self.pending = []

    def value(self) -> T:
        return self.rule(self.expr, self.pending) if self.so_far is None else self.so_far
