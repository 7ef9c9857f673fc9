"""Amaranth's property language, which its type stubs do not know yet."""

from __future__ import annotations

from typing import Any

from amaranth import asserts, hdl
from amaranth.hdl import Module, Signal, ValueLike

AnyConst: Any = asserts.AnyConst  # pyright: ignore[reportAttributeAccessIssue]
AnySeq: Any = asserts.AnySeq  # pyright: ignore[reportAttributeAccessIssue]
Assert: Any = hdl.Assert
Assume: Any = hdl.Assume


def same_start(m: Module, *pairs: tuple[ValueLike, ValueLike]) -> None:
    """Assume that both of each pair are equal in the first cycle.

    A register without reset holds anything then; so does what a proof compares it with.
    """
    first = Signal(name="is_first_cycle", init=1)
    m.d.sync += first.eq(0)
    with m.If(first):
        m.d.comb += [Assume(one == other) for one, other in pairs]
