"""Devices with builds of fewer bits than a program's codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.program import AnyProgram, BandProgram, Mode, WindowProgram

from ...device.base import PAIRS, Kernel
from .kernel import NarrowKernel
from .maps import narrowed

#: Widths of units that a device may build for programs of wider codes.
NARROW_WIDTHS = (16, 24)


def narrow_refusal(program: AnyProgram, modes: frozenset[Mode], bits: int) -> str | None:
    """Why units of so many bits cannot run a program whatever its predicate; None if they can."""
    if isinstance(program, WindowProgram):
        parts = [part for part in (program.a, program.b) if isinstance(part, BandProgram)]
        widest = max((part.key_bits for part in parts), default=0)
        if widest > bits:
            return (
                f"its window operator has codes of {bits} bits, and these rows need {widest}; use "
                "the range operator"
            )
        return None
    if not isinstance(program, BandProgram) or program.key_bits <= bits or modes <= PAIRS:
        return None
    names = ", ".join(sorted(mode.value for mode in modes - PAIRS))
    return (
        f"its units have {bits} bits, and these keys need {program.key_bits}; folds ({names}) need "
        "exact codes, pairs do not"
    )


def units_of(program: BandProgram, modes: frozenset[Mode], bits: int | None) -> int | None:
    """Width of the units that run a program whose codes are wider; None where they are as wide.

    Parameters
    ----------
    bits : int or None
        Width that the device was told; None if programs say it.
    """
    if bits is None and modes <= PAIRS:
        bits = program.unit_bits
    return bits if bits is not None and bits < program.key_bits else None


def open_narrow(
    program: BandProgram,
    bits: int,
    open_exact: Callable[[BandProgram], Kernel],
    count: Callable[[Mapping[str, int]], None],
) -> Kernel:
    """A program for pairs on units of so many bits.

    Parameters
    ----------
    open_exact : callable
        Opens a program whose codes the units have.
    count : callable
        Takes the counters of tasks that the device does not know itself.
    """
    return NarrowKernel(open_exact(narrowed(program, bits)), program, count)
