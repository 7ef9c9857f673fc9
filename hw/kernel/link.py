"""How Vitis places kernels on a card and connects them to its memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ..checks import check_integer
from .kernel import KERNEL, PORTS, SHARED
from .registers import REGISTERS, Register

#: Memory resources that ``v++`` connects ports to.
_MEMORIES = ("HBM", "DDR")


def compute_units(kernels: int, kernel: str = KERNEL) -> list[str]:
    """Names of the kernels of a card."""
    return [f"{kernel}_{number}" for number in range(1, kernels + 1)]


def port_banks(
    kernels: int, ports: Sequence[str], shared: Collection[str], banks: int
) -> dict[tuple[int, str], range]:
    """Banks that each port of each kernel reaches, by the kernel's number and the port's name.

    A port with buffers of its own has a bank, as long as there are enough; a quarter of all, or
    what is left over, hold the buffers of shared ports.
    """
    own = [(k, port) for k in range(kernels) for port in ports if port not in shared]
    kept = max(banks - len(own), -(-banks // 4)) if len(own) < kernels * len(ports) else 0
    dealt = max(banks - kept, 1)  # a single bank holds everything
    found = {pair: range(n % dealt, n % dealt + 1) for n, pair in enumerate(own)}
    common = range(banks - kept, banks)
    return {(k, port): found.get((k, port), common) for k in range(kernels) for port in ports}


def bank_tags(memory: str, banks: range) -> list[str]:
    """Names of some banks, as XRT and PYNQ have them."""
    return [f"{memory}[{bank}]" for bank in banks]


def link_config(
    kernels: int,
    memory: str,
    banks: int,
    slrs: int = 1,
    *,
    kernel: str = KERNEL,
    ports: Iterable[str] = tuple(PORTS),
    shared: Collection[str] = SHARED,
    registers: Iterable[type[Register]] = REGISTERS,
) -> str:
    """Connectivity of the kernels of a card, as ``v++ --config`` reads it; never run through it.

    Ports reach the banks of :func:`port_banks`. Kernels are dealt over the dies.

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
    shared : collection of str
        Those of them whose buffers all kernels read.
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
    dealt = port_banks(kernels, tuple(ports), shared, banks)
    for (number, port), reached in dealt.items():
        first, last = reached[0], reached[-1]
        resource = f"{memory}[{first}]" if first == last else f"{memory}[{first}:{last}]"
        for register in registers:
            if register.port == port:
                lines.append(f"sp={units[number]}.{register.name}:{resource}")
    if slrs > 1:
        lines += [f"slr={unit}:SLR{number % slrs}" for number, unit in enumerate(units)]
    return "\n".join(lines) + "\n"
