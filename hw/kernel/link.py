"""How Vitis places kernels on a card and connects them to its memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from penstock.constraints.boards import Board
from penstock.constraints.templates import fill

from ..checks import check_integer
from .description import Description

#: Memory resources that ``v++`` connects ports to.
_MEMORIES = ("HBM", "DDR")
#: Name of the file.
LINK = "link.cfg"


def compute_units(kernels: int, kernel: str) -> list[str]:
    """Names of the kernels of a card."""
    return [f"{kernel}_{number}" for number in range(1, kernels + 1)]


def die_of(number: int, card: Board) -> int:
    """Die that a kernel, counted from 0, is placed on."""
    return number % card.slrs


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


def link_config(description: Description, card: Board, kernels: int) -> str:
    """Settings by which ``v++ --config`` links the kernels of a card; never run through it.

    Parameters
    ----------
    description : Description
        The kernel.
    card : Board
    kernels : int
        Kernels on the card. They are dealt over its dies, and their ports reach the banks of
        :func:`port_banks`.

    Raises
    ------
    TypeError, ValueError
        The number of kernels is no integer or below 1, or the board is no card.
    """
    if check_integer("kernels", kernels) < 1:
        raise ValueError(f"kernels must be at least 1, not {kernels!r}")
    if card.memory not in _MEMORIES:
        raise ValueError(f"memory must be HBM or DDR, not {card.memory!r}")
    units = compute_units(kernels, description.kernel)
    lines = [f"nk={description.kernel}:{kernels}:{'.'.join(units)}"]
    dealt = port_banks(kernels, tuple(description.ports), description.shared, card.banks)
    for (number, port), reached in dealt.items():
        first, last = reached[0], reached[-1]
        resource = f"{card.memory}[{first}]" if first == last else f"{card.memory}[{first}:{last}]"
        for pointer in description.ports[port].pointers:
            lines.append(f"sp={units[number]}.{pointer.name}:{resource}")
    if card.slrs > 1:
        lines += [f"slr={unit}:SLR{die_of(number, card)}" for number, unit in enumerate(units)]
    return fill(LINK, clock_mhz=card.clock_mhz, connectivity="\n".join(lines))
