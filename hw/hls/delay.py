"""A simple model of the delays of operations in the fabric, by which pipelines are cut.

The numbers are those of a mid-speed UltraScale+ part with an average net. They rank cuts; they
are not timing closure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from penstock.expr.node import Expr, Op

#: Inputs of a LUT, of a DSP multiplier's narrow and of its wide port (both unsigned).
LUT_INPUTS, DSP_NARROW_BITS, DSP_WIDE_BITS = 6, 17, 26

_WIRES = frozenset({Op.CONST, Op.KEY, Op.CAST, Op.NOT, Op.BIT_NOT})
_CARRIES = frozenset({Op.ADD, Op.SUB, Op.NEG})


@dataclass(frozen=True, kw_only=True)
class DelayModel:
    """Delays in picoseconds.

    Parameters
    ----------
    period_ps : int
        Clock period; 3333 is 300 MHz.
    register_ps : int
        Clock to output plus set-up of a register.
    lut_ps : int
        A LUT and the net behind it.
    carry_ps : int
        One bit of a carry chain.
    multiply_ps : int
        A DSP multiplier with its nets.
    """

    period_ps: int = 3333
    register_ps: int = 250
    lut_ps: int = 450
    carry_ps: int = 12
    multiply_ps: int = 2600

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, int):
                raise TypeError(f"{field.name} must be an integer, not {value!r}")
            if value < 1:
                raise ValueError(f"{field.name} must be positive, not {value!r}")
        if self.budget_ps < self.lut_ps:
            raise ValueError(
                f"period_ps must leave room for a register and a LUT, not {self.period_ps!r}"
            )

    @property
    def budget_ps(self) -> int:
        """Time for logic in one stage."""
        return self.period_ps - self.register_ps

    def delay_ps(self, node: Expr) -> int:
        """Delay of a lowered node from its arguments to its value."""
        op, args = node.op, node.args
        bits = max((x.type.bits for x in (node, *args)), default=0)
        if is_wire(node):
            return 0
        if op in _CARRIES:
            return self._carry(bits)
        if op in (Op.LT, Op.LE):
            return self._compare(args)
        if op is Op.EQ:
            return self._tree(2 * bits)
        if op in (Op.AND, Op.OR):
            return self._tree(len(args))
        if op in (Op.LEAST, Op.GREATEST):
            return self._compare(args) + self.lut_ps
        if op is Op.CASE:
            return len(args) // 2 * self.lut_ps
        if op in (Op.SHL, Op.SHR):
            # A LUT holds a four-way multiplexer: two bits of the amount per level.
            return 0 if args[1].is_const else (args[1].type.bits + 1) // 2 * self.lut_ps
        if op is Op.MUL:
            return self._multiply(args[0], args[1], bits)
        return self.lut_ps

    def _carry(self, bits: int) -> int:
        return self.lut_ps + bits * self.carry_ps

    def _compare(self, args: Sequence[Expr]) -> int:
        """A carry chain between two LUTs, as :mod:`penstock.hw.hls.compare` builds it."""
        a, b, *_ = args
        links = max(a.type.bits, b.type.bits) * (2 - a.is_const - b.is_const) // LUT_INPUTS
        return 2 * self.lut_ps + links * self.carry_ps

    def _tree(self, inputs: int) -> int:
        levels, reach = 1, LUT_INPUTS
        while reach < inputs:
            levels, reach = levels + 1, reach * LUT_INPUTS
        return levels * self.lut_ps

    def _multiply(self, a: Expr, b: Expr, bits: int) -> int:
        """A sum of shifted copies for a constant, a sum of DSP tiles otherwise."""
        if a.is_const or b.is_const:
            factor = abs(a.attr if a.is_const else b.attr)
            # Non-adjacent form: the fewest terms, with subtraction.
            terms = (factor ^ (3 * factor)).bit_count()
            return max(terms - 1, 0).bit_length() * self._carry(bits)
        narrow, wide = sorted((a.type.bits, b.type.bits))
        tiles = -(-narrow // DSP_NARROW_BITS) * -(-wide // DSP_WIDE_BITS)
        return self.multiply_ps + (tiles - 1).bit_length() * self._carry(bits)


def is_wire(node: Expr) -> bool:
    """Whether the operation costs nothing: wires, or a part of the LUT that reads it."""
    return node.op in _WIRES or is_sign_test(node) or is_inversion(node)


def is_inversion(node: Expr) -> bool:
    """Whether the node is ``case when c then ~x else x end``, an XOR."""
    if node.op is not Op.CASE or len(node.args) != 3:
        return False
    _, inverse, x = node.args
    return inverse.op is Op.BIT_NOT and inverse.args[0] is x


def is_sign_test(node: Expr) -> bool:
    """Whether the comparison is ``x < 0``, which is a wire."""
    return node.op is Op.LT and node.args[1].is_const and node.args[1].attr == 0
