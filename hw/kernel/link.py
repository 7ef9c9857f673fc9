"""How Vitis places kernels on a card and connects them to its memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from ..checks import check_integer
from .kernel import KERNEL, PORTS
from .registers import REGISTERS, Register

#: Memory resources that ``v++`` connects ports to.
_MEMORIES = ("HBM", "DDR")


def compute_units(kernels: int, kernel: str = KERNEL) -> list[str]:
    """Names of the kernels of a card."""
    return [f"{kernel}_{number}" for number in range(1, kernels + 1)]


def port_banks(kernels: int, ports: Sequence[str], banks: int) -> dict[tuple[int, str], int]:
    """The bank of each port of each kernel, by the kernel's number and the port's name."""
    pairs = itertools.product(range(kernels), ports)
    return {pair: number % banks for number, pair in enumerate(pairs)}


def link_config(
    kernels: int,
    memory: str,
    banks: int,
    slrs: int = 1,
    *,
    kernel: str = KERNEL,
    ports: Iterable[str] = tuple(PORTS),
    registers: Iterable[type[Register]] = REGISTERS,
) -> str:
    """Connectivity of the kernels of a card, as ``v++ --config`` reads it; never run through it.

    Each port of each kernel has a bank of its own as long as there are enough; then they share,
    first those of different kernels. Kernels are dealt over the dies.

    Parameters
    ----------
    kernels : int
        Kernels on the card.
    memory : str
        "HBM" (a bank is a pseudo-channel) or "DDR".
    banks : int
        Banks of the card.
    slrs : int
        Dies of the card; with one, nothing is said of dies.
    kernel : str
        Name of the kernel.
    ports : iterable of str
        Its memory ports.
    registers : iterable of type
        Its registers: those with a port are pointers into its memory.

    Raises
    ------
    TypeError, ValueError
        An argument is of the wrong kind, or out of range.
    """
    for name, value in (("kernels", kernels), ("banks", banks), ("slrs", slrs)):
        if check_integer(name, value) < 1:
            raise ValueError(f"{name} must be at least 1, not {value!r}")
    if memory not in _MEMORIES:
        raise ValueError(f"memory must be HBM or DDR, not {memory!r}")
    units = compute_units(kernels, kernel)
    lines = ["[connectivity]", f"nk={kernel}:{kernels}:{'.'.join(units)}"]
    dealt = port_banks(kernels, tuple(ports), banks)
    for (number, port), bank in dealt.items():
        for register in registers:
            if register.port == port:
                lines.append(f"sp={units[number]}.{register.name}:{memory}[{bank}]")
    if slrs > 1:
        lines += [f"slr={unit}:SLR{number % slrs}" for number, unit in enumerate(units)]
    return "\n".join(lines) + "\n"
