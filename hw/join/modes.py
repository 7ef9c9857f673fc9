"""Modes of a build: what units keep of their matches, and how a task selects it.

The units know two folds. One adds its operand: COUNT, with 1 as the operand, and SUM. The other
keeps the least: MIN, NEAREST, and MAX on operands with all bits inverted, which turns their order
around. So a unit that offers all modes has one adder and one comparison.
"""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Const, Module, Signal, Value
from amaranth.lib import data

from penstock.program import Mode

#: A mode as the hardware sees it: its place in the enumeration.
CODES = {mode: code for code, mode in enumerate(Mode)}
MODE_BITS = (len(CODES) - 1).bit_length()

_ADDING = frozenset({Mode.COUNT, Mode.SUM})
_LEAST = frozenset({Mode.MIN, Mode.MAX, Mode.NEAREST})
#: Modes whose operand is 1. EXISTS needs no value; where there is an adder it counts.
_COUNTING = frozenset({Mode.COUNT, Mode.EXISTS})


@dataclass(frozen=True)
class Folding:
    """What the units of a build with aggregates have.

    Parameters
    ----------
    modes : frozenset of Mode
        The build's modes. PAIRS is one of them.
    operand_bits : int
        Width of the value that is folded, signed; 0 if no mode needs one.
    position_bits : int
        Width of window positions, and so of a count.
    """

    modes: frozenset[Mode]
    operand_bits: int
    position_bits: int

    @property
    def adds(self) -> bool:
        """Whether there is an adder."""
        return bool(self.modes & _ADDING)

    @property
    def keeps_least(self) -> bool:
        """Whether there is a comparison."""
        return bool(self.modes & _LEAST)

    @property
    def places(self) -> bool:
        """Whether the position of the least is kept."""
        return Mode.NEAREST in self.modes

    @property
    def finds(self) -> bool:
        """Whether a bit says that there was a match; a count says it itself."""
        return any(mode.needs_value for mode in self.modes) or Mode.COUNT not in self.modes

    @property
    def value_bits(self) -> int:
        """Width of a unit's value: no sum of as many operands as there are positions overflows."""
        widths = [0]
        if Mode.COUNT in self.modes:
            widths.append(self.position_bits)
        if Mode.SUM in self.modes:
            widths.append(self.operand_bits + self.position_bits)
        if self.keeps_least:
            widths.append(self.operand_bits)
        return max(widths)

    @property
    def layout(self) -> data.StructLayout:
        """What a unit gives for its tuple.

        ``value`` in a mode that keeps the least is in the low ``operand_bits``, inverted for MAX.
        ``position`` counts from the tuple's start.
        """
        fields = {"value": self.value_bits} if self.value_bits else {}
        if self.finds:
            fields["found"] = 1
        if self.places:
            fields["position"] = self.position_bits
        return data.StructLayout(fields)

    @property
    def fields(self) -> dict[str, int]:
        """Widths of the layout's fields, from bit 0 on."""
        return {str(name): field.width for name, field in self.layout}

    def folds(self, code: Value) -> Value:
        """Whether a task's mode folds its matches."""
        return code != CODES[Mode.PAIRS]

    def least(self, code: Value) -> Value:
        """Whether the units keep the least operand rather than add."""
        return self._any_of(code, _LEAST)

    def one(self, code: Value) -> Value:
        """Whether the operand is 1."""
        return self._any_of(code, _COUNTING)

    def inverse(self, code: Value) -> Value:
        """Whether all bits of the operand are inverted."""
        return self._any_of(code, {Mode.MAX})

    def _any_of(self, code: Value, wanted: frozenset[Mode] | set[Mode]) -> Value:
        """Whether the mode is one of those, where it folds at all."""
        yes = self.modes & wanted
        if not yes or yes == self.modes - {Mode.PAIRS}:
            return Const(bool(yes), 1)
        return one_of(code, yes)


def one_of(code: Value, modes: frozenset[Mode]) -> Value:
    """Whether the code is that of one of these modes."""
    hit = Const(0, 1)
    for mode in CODES:  # in their order: that of a set is another one in each process
        if mode in modes:
            hit = hit | (code == CODES[mode])
    return hit


def keep_control(
    m: Module, folding: Folding, name: str, code: Value, o: Signal, write: Value
) -> None:
    """Keep ``folding.name(code)`` of the code written last; a constant needs no register."""
    value = getattr(folding, name)(code)
    if isinstance(value, Const):
        m.d.comb += o.eq(value)
        return
    with m.If(write):
        m.d.sync += o.eq(value)


def refused_sum(operand_bits: int, position_bits: int) -> str | None:
    """Why values of this width cannot be summed; None if they can."""
    if operand_bits + position_bits <= 64:
        return None
    return (
        f"a value of {operand_bits} bits is too wide to be summed: over 2^{position_bits} window "
        f"tuples the sum may need {operand_bits + position_bits} bits, and 64 are kept; "
        "sum on another device, or declare a narrower range"
    )
