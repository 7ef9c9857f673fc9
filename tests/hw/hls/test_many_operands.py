"""Predicates of many operands: built in halves, or refused in a sentence."""

from __future__ import annotations

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Module, Signal

from penstock.errors import DeviceError
from penstock.expr import ops
from penstock.expr.node import Expr, Op, node
from penstock.hw.hls.check import MAX_BRANCHES, MAX_STEPS
from penstock.hw.hls.datapath import logic
from penstock.hw.hls.lower import lower
from penstock.program import GeneralProgram
from penstock.types import integer

KEY = integer(0, 1000, nullable=False)
S, W = ops.key("s", 0, KEY), ops.key("w", 0, KEY)


def program(predicate: Expr) -> GeneralProgram:
    return GeneralProgram((KEY,), (KEY,), predicate)


@pytest.mark.parametrize("op", [Op.AND, Op.OR])
def test_thousands_of_operands_are_elaborated(op: Op) -> None:
    m = Module()
    operands = [Signal(name=f"i{k}") for k in range(3000)]
    result = Signal()
    terms = [ops.lt(ops.add(S, ops.const(k)), W) for k in range(3)]
    m.d.comb += result.eq(logic(m, node(op, tuple(terms), terms[0].type), operands))
    assert "module" in rtlil.convert(m, ports=[*operands, result])


@pytest.mark.parametrize(
    ("predicate", "message"),
    [
        (
            ops.or_(*(ops.lt(ops.add(S, ops.const(k)), W) for k in range(MAX_STEPS))),
            f"steps cannot be built: {MAX_STEPS} are the most",
        ),
        (
            ops.case(
                [(ops.eq(S, ops.const(k)), ops.lt(W, S)) for k in range(MAX_BRANCHES + 1)],
                ops.FALSE,
            ),
            f"chooses among more than {MAX_BRANCHES} values",
        ),
        (
            ops.is_in(ops.sub(S, W), [ops.const(2 * k) for k in range(100)]),
            "looks up a value of both sides in a list",
        ),
    ],
)
def test_refusals(predicate: Expr, message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        lower(program(predicate))
