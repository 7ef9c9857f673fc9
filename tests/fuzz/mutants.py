"""Mends taken out again, and how many queries it takes until the generator notices.

``python -m tests.fuzz --mutant N`` and ``test_mutants.py`` show that the generator finds each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

from penstock.expr import ops
from penstock.expr.node import Expr, Op
from penstock.plan import plan, ranges
from penstock.query import compiler
from tests.fuzz.campaign import Finding, Tally, run_seed
from tests.fuzz.check import check
from tests.fuzz.oracle import Oracle
from tests.penstock.kit.devices import InterpretingCpu

SURFACE: dict[Op, Callable[..., Expr]] = {
    Op.ADD: ops.add,
    Op.SUB: ops.sub,
    Op.MUL: ops.mul,
    Op.MOD: ops.mod,
    Op.NEG: ops.neg,
    Op.ABS: ops.absolute,
    Op.LEAST: ops.least,
    Op.GREATEST: ops.greatest,
    Op.EQ: ops.eq,
    Op.LT: ops.lt,
    Op.LE: ops.le,
}


@contextmanager
def scales_aligned_twice() -> Iterator[None]:
    """Aggregates of nullable columns without NULL rebuild expressions as if from SQL."""

    def remake(expr: Expr, args: tuple[Expr, ...]) -> Expr:
        if args == expr.args:
            return expr
        surface = SURFACE.get(expr.op)
        return surface(*args) if surface else ops.remake(expr, args)

    older = SimpleNamespace(**{**vars(ops), "remake": remake})
    with patch.object(plan, "ops", older):
        yield


@contextmanager
def constant_where_in_on() -> Iterator[None]:
    """A WHERE that is FALSE or NULL whatever the row becomes a part of ON."""
    mended = compiler.conditions

    def conditions(statement: Any) -> tuple[list[list[Expr]], list[Expr]]:
        filters, conjuncts = mended(statement)
        constant = [c for c in filters[0] if c.is_const]
        return [[c for c in own if not c.is_const] for own in filters], conjuncts + constant

    with patch.object(compiler, "conditions", conditions):
        yield


@contextmanager
def bounds_stop_at_the_ends() -> Iterator[None]:
    """Window bounds beyond int64 stop at its ends, where they meet rows of that time."""

    def places(window: Any, times: Any, by: int, side: Any, search: Any) -> Any:
        return search(window, ranges.shifted(times, by), side).astype(np.int64)

    with patch.object(ranges, "_places", places):
        yield


@dataclass(frozen=True)
class Mutant:
    name: str
    apply: Callable[[], Any]


MUTANTS = {
    1: Mutant("aggregates over tables align scales twice", scales_aligned_twice),
    2: Mutant("a WHERE that folds to FALSE becomes part of ON", constant_where_in_on),
    3: Mutant("window bounds saturate at the ends of int64", bounds_stop_at_the_ends),
}


def search(mutant: Mutant, start: int, most: int) -> tuple[int, Finding | None]:
    """Queries until one fails with the mutant and passes without it, and what was found.

    Parameters
    ----------
    start
        The first seed.
    most
        Queries after which the search ends without a finding.
    """
    tally = Tally()
    seed = start
    with InterpretingCpu() as device:
        while tally.queries < most:
            before = len(tally.findings)
            with mutant.apply():
                run_seed(seed, device, tally)
            seed += 1
            for finding in tally.findings[before:]:
                oracle = Oracle(finding.case.query)
                if check(finding.case, oracle, finding.mode, device).kind != "finding":
                    return tally.queries, finding
    return tally.queries, None
