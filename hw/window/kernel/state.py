"""Value of the register with the operator's state."""

from __future__ import annotations

from amaranth.hdl import Cat, Value

from ..layout import State
from ..operator import WindowJoin


def operator_state(operator: WindowJoin) -> Value:
    """Bits of :class:`penstock.hw.window.kernel.registers.OperatorState`."""
    states = (operator.o_state_a, operator.o_state_b)
    return Cat(
        *(bit for state in states for bit in (state != State.READY, state == State.WAIT)),
        operator.o.valid & ~operator.o.ready,
        operator.o_idle,
    )
