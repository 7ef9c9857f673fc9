"""Which programs a built-in predicate serves."""

from __future__ import annotations

import pytest

from penstock.expr import ops
from penstock.expr.node import Expr
from penstock.host.devices.board.package import fits
from penstock.program import BandProgram, GeneralProgram
from penstock.types import BOOL, Type, integer

WIDE, NARROW = integer(-1000, 1000), integer(0, 10)
FLAG = BOOL.as_nullable(False)


def program(
    number: Type, *, guarded: bool = True, limit: int = 50, value: bool = False
) -> GeneralProgram:
    """``s0 * w0 < limit``, with guards for NULL."""
    number = number.as_nullable(False)
    product = ops.mul(ops.key("s", 0, number), ops.key("w", 0, number))
    predicate = ops.lt(product, ops.const(limit))
    if guarded:
        predicate = ops.and_(predicate, ops.key("s", 1, FLAG), ops.key("w", 1, FLAG))
    keys = (number, FLAG)
    return GeneralProgram(keys, keys, predicate, product if value else None)


@pytest.mark.parametrize("guarded", [True, False])
def test_narrower_keys_with_or_without_guards(guarded: bool) -> None:
    assert fits(program(NARROW, guarded=guarded), program(WIDE))


@pytest.mark.parametrize(
    ("wanted", "built"),
    [
        (program(WIDE), program(NARROW)),
        (program(NARROW, limit=51), program(WIDE)),
        # A build without guards would take rows with NULL.
        (program(NARROW), program(WIDE, guarded=False)),
        (program(NARROW, value=True), program(WIDE)),
        (program(NARROW), program(WIDE, value=True)),
        (BandProgram(tests=1, table=2), program(WIDE)),
        (program(NARROW), BandProgram(tests=1, table=2)),
    ],
)
def test_what_does_not_fit(wanted: GeneralProgram, built: GeneralProgram) -> None:
    assert not fits(wanted, built)


def test_a_predicate_that_is_taken_apart_another_way() -> None:
    """The conjuncts of a NOT are other nodes than those of the predicate."""

    def unequal(number: Type) -> GeneralProgram:
        number = number.as_nullable(False)
        key = ops.key("s", 0, number)
        both = ops.or_(ops.eq(key, ops.const(3)), ops.eq(key, ops.key("w", 0, number)))
        return GeneralProgram((number,), (number,), ops.not_(both))

    assert fits(unequal(NARROW), unequal(WIDE))


def test_a_shared_operand_is_looked_at_once() -> None:
    """As a tree this expression has 2**60 leaves."""

    def summed(number: Type) -> GeneralProgram:
        number = number.as_nullable(False)
        sum_: Expr = ops.key("s", 0, number)
        for _ in range(60):
            sum_ = ops.bit_and(sum_, ops.bit_not(sum_))
        return GeneralProgram((number,), (), ops.lt(sum_, ops.const(5)))

    assert fits(summed(NARROW), summed(WIDE))
