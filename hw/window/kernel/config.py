"""Build-time knobs of the memory-fed window kernel and the sizes that follow from them."""

from __future__ import annotations

from dataclasses import dataclass

from ...checks import check_power_range
from ...kernel.config import LANES, PAGE_WORDS
from ..config import WindowConfig

#: Width of what a tuple carries into its results: its number in the task.
NUMBER_BITS = 32

#: Tuples whose results may still come when the next one is let in: two that are matched, two that
#: wait in the input layer, and itself.
TUPLES_IN_FLIGHT = 5

#: Results between the operator and the counter of results, with room to spare.
_RESULTS_ON_THE_WAY = 16


@dataclass(frozen=True, kw_only=True)
class WindowKernelConfig:
    """One build of the memory-fed kernel.

    Parameters
    ----------
    window : WindowConfig
        The operator. Payloads are the tuples' numbers, 32 bits; one result leaves per cycle.
    burst_words, read_words, write_words : int
        See :class:`penstock.hw.kernel.config.KernelConfig`.
    """

    window: WindowConfig
    burst_words: int = 64
    read_words: int = 512
    write_words: int = 256

    def __post_init__(self) -> None:
        if not isinstance(self.window, WindowConfig):
            raise TypeError(f"window must be a WindowConfig, not {self.window!r}")
        for name, low, high in (
            ("burst_words", 1, PAGE_WORDS),
            ("read_words", 4, 1 << 16),
            ("write_words", 4, 1 << 16),
        ):
            check_power_range(name, getattr(self, name), low, high)
        if min(self.read_words, self.write_words) < self.burst_words:
            raise ValueError(
                f"read_words and write_words must hold a burst of {self.burst_words} words, not "
                f"{self.read_words!r} and {self.write_words!r}"
            )
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
        return -(-self.reserve_results(rows_a, rows_b) // LANES)
