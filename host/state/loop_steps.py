"""Statements of a generated loop over rows, and the machine types of their values."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.expr.node import Expr
from penstock.types import Kind

from ..devices.cpu.operations import NotCompilable, Steps
from .coded import is_coded

#: Most steps of a loop: each takes Numba a few milliseconds, and each row once, not each pair.
MAX_STEPS = 512


class LoopSteps(Steps):
    """Statements of a loop over rows, each an assignment to a new variable."""

    def add(self, text: str) -> str:
        if self.count == MAX_STEPS:
            raise NotCompilable(f"more than {MAX_STEPS} steps")
        name = f"v{self.count}"
        self.count += 1
        self.body.append(f"{name} = {text}")
        return name


@dataclass(frozen=True)
class Value:
    """Names of a value's variable and of its validity's, which is None if it is never NULL."""

    name: str
    valid: str | None


def type_of(expr: Expr) -> str:
    """Return the NumPy name of the type of a node's values.

    Raises
    ------
    NotCompilable
        A value needs more than one word.
    """
    if expr.type.kind is Kind.BOOL:
        return "np.bool_"
    if expr.type.is_float:
        return f"np.{expr.type.kind.value}"
    if is_coded(expr.type):
        return "np.int64"  # its code
    if not expr.type.is_integral or expr.type.signed_bits > 64:
        raise NotCompilable(f"a value of type {expr.type}")
    return "np.int32" if expr.type.signed_bits <= 32 else "np.int64"
