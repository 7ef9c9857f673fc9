"""Build-time knobs of the memory-fed window kernel and the sizes that follow from them."""

from __future__ import annotations

from dataclasses import dataclass

from ...kernel.sizes import PortSizes
from ..config import WindowConfig

#: Width of what a tuple carries into its results: its number in the task.
NUMBER_BITS = 32

#: Width of a result in memory: the numbers of two tuples.
RESULT_BITS = 2 * NUMBER_BITS

#: Tuples whose results may still come when the next one is let in: two that are matched, two that
#: wait in the input layer, and itself.
TUPLES_IN_FLIGHT = 5

#: Results between the operator and the counter of results, with room to spare.
_RESULTS_ON_THE_WAY = 16


@dataclass(frozen=True, kw_only=True)
class WindowKernelConfig(PortSizes):
    """One build of the memory-fed kernel.

    Parameters
    ----------
    window : WindowConfig
        The operator. Payloads are the tuples' numbers, 32 bits; one result leaves per cycle.

    Others are those of :class:`penstock.hw.kernel.sizes.PortSizes`.
    """

    window: WindowConfig

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.window, WindowConfig):
            raise TypeError(f"window must be a WindowConfig, not {self.window!r}")
        if self.window.payload_bits != (NUMBER_BITS, NUMBER_BITS):
            raise ValueError(
                f"payloads must have {NUMBER_BITS} bits, not {self.window.payload_bits!r}"
            )
        if self.window.outputs != 1:
            raise ValueError(f"outputs must be 1, not {self.window.outputs!r}")

    @property
    def spare_results(self) -> int:
        """Most results that wait in the operator's queues and behind them."""
        return self.window.held_results + _RESULTS_ON_THE_WAY

    def reserve_results(self, rows_a: int, rows_b: int) -> int:
        """Results that room is kept for while a tuple is let in.

        Parameters
        ----------
        rows_a, rows_b : int
            Sizes of the windows.
        """
        return TUPLES_IN_FLIGHT * max(rows_a, rows_b) + self.spare_results

    def least_result_words(self, rows_a: int, rows_b: int) -> int:
        """Smallest result room in which every task makes progress, without the header."""
        return -(-self.reserve_results(rows_a, rows_b) * RESULT_BITS // self.word_bits)
