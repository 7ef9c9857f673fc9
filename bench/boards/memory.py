"""How many join kernels a board's memory banks serve, and how long a window they hold.

A window is brought to a card once, for all kernels, and lies in one bank while it is no longer than
that; so all kernels may read the same bank at a time, each a window tuple in every cycle. What else
they read and write is little beside that where matches are rare: a stream tuple is read once while
the whole window flows past it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from bench.boards.counts import KEY_BITS, TESTS
from penstock.constraints.boards import Board, ToolFlow
from penstock.hw.board.placement import MOST_KERNELS, clock_of, shared_ports
from penstock.hw.join.kernel.describe import PORTS
from penstock.hw.kernel.link import port_banks

#: Share of a memory's peak that kernels see.
MEMORY_EFFICIENCY = 0.8
#: What stops kernels from getting a window tuple per cycle.
PORT, BANK = "memory port", "memory banks"
#: Ports by which kernels read windows.
_SHARED = [name for name, port in PORTS.items() if port.is_shared]


@dataclass(frozen=True)
class WindowMemory:
    """Memory of a board as the window ports of its join kernels see it.

    Parameters
    ----------
    board : Board
    key_bits : int
        Width of codes, of two tests.
    """

    board: Board
    key_bits: int = KEY_BITS

    @property
    def tuple_bytes(self) -> int:
        """Bytes of a window tuple."""
        return TESTS * self.key_bits // 8

    @property
    def kernel_bytes_s(self) -> float:
        """Bytes per second that a kernel reads of its window."""
        return self.tuple_bytes * clock_of(self.board) * 1e6

    @property
    def port_bytes_s(self) -> float:
        """Bytes per second that a port brings."""
        return MEMORY_EFFICIENCY * (self.board.port_bits // 8) * clock_of(self.board) * 1e6

    @property
    def bank_bytes_s(self) -> float:
        """Bytes per second that a bank brings."""
        return MEMORY_EFFICIENCY * self.board.memory_gb_s * 1e9 / self.board.banks

    @property
    def kernels(self) -> tuple[int, str]:
        """Most kernels of which each gets a window tuple in every cycle, all from one bank.

        With what another one would be short of; empty if the board takes no more kernels.
        """
        for number in count(1):
            if self.board.flow is ToolFlow.VIVADO and number > MOST_KERNELS:
                break
            if short := self.fed(number)[1]:
                return number - 1, short
        return MOST_KERNELS, ""

    def fed(self, kernels: int) -> tuple[float, str]:
        """Share of the cycles in which each of some kernels has a window tuple, and what is short.

        What is short is empty if nothing is.
        """
        found = {
            PORT: self.port_bytes_s / self._sharing(kernels),
            BANK: self.bank_bytes_s / kernels,
        }
        short = min(found, key=lambda name: found[name])
        share = found[short] / self.kernel_bytes_s
        return (1.0, "") if share >= 1 else (share, short)

    def _sharing(self, kernels: int) -> int:
        """Most window ports of kernels that share a port of the memory."""
        if self.board.flow is ToolFlow.VITIS:
            return 1
        sharing = shared_ports(self.board, [str(k) for k in range(kernels)], tuple(PORTS))
        windows = {f"{k}/{port}" for k in range(kernels) for port in _SHARED}
        return max(len(windows.intersection(ports)) for ports in sharing)

    def banks(self, kernels: int) -> int:
        """Banks that the window ports of so many kernels reach."""
        if self.board.flow is ToolFlow.VIVADO:
            return self.board.banks
        reached = port_banks(kernels, tuple(PORTS), _SHARED, self.board.banks)
        return len(reached[0, _SHARED[0]])

    def tuples(self, banks: int) -> int:
        """Window tuples that some banks hold."""
        return banks * (self.board.bank_mib << 20) // self.tuple_bytes
