"""All build-time knobs of a window-join operator and the widths that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from penstock.program import MAX_BAND_TESTS

from ..checks import check_power, check_range
from ..join.config import JoinConfig

#: Most queue banks that are read per cycle.
MAX_BANKS = 64

#: Results of a group that are taken out of it at once, to leave one by one.
CHUNK = 8

#: What the tuples of a queue lie in: what the tools choose, block RAM or for short banks LUTs; or
#: UltraRAM.
MemoryKind = Literal["auto", "uram"]

#: Cycles from the step of a scan to the results of its row, without those of the memory: the
#: address, the tests' comparisons, their truth table.
_TEST_CYCLES = 3

#: Cycles from a group of results at the output layer to the stop that it may cause: it is counted,
#: then the count is there, then the stop.
_STOP_CYCLES = 3


@dataclass(frozen=True, kw_only=True)
class WindowConfig:
    """One build of the window-join operator.

    Parameters
    ----------
    depth : int
        Slots of each queue, a power of two: the most ROWS a window can have.
    banks : int
        Queue tuples that are read and tested per cycle and side, P: a power of two up to 64.
    tests : int
        Band tests per pair, D; 0 for equality of the key.
    key_bits : int
        Width of the key, or of a band code.
    time_bits : int
        Width of the timestamp field; 0 leaves out timestamps and time windows.
    payload_a_bits, payload_b_bits : int
        Width of what a tuple of each side carries into its results.
    parallel : bool
        Match tuples of both sides at once. False is the sequential join of paper 4, figure 3: one
        tuple at a time.
    outputs : int
        Results that can leave per cycle, 1 or 2. With 2, each side has a place of its own.
    records : int
        Groups with results that each side's output can hold.
    memory_a, memory_b : str
        What the tuples of each side lie in, see :data:`MemoryKind`.
    counter_bits : int
        Width of the counters of tuples.
    """

    depth: int = 1024
    banks: int = 1
    tests: int = 0
    key_bits: int = 32
    time_bits: int = 0
    payload_a_bits: int = 32
    payload_b_bits: int = 32
    parallel: bool = True
    outputs: int = 1
    records: int = 16
    memory_a: MemoryKind = "auto"
    memory_b: MemoryKind = "auto"
    counter_bits: int = 32

    def __post_init__(self) -> None:
        check_range("banks", self.banks, 1, MAX_BANKS)
        check_power("banks", self.banks)
        check_range("depth", self.depth, 2 * self.banks, 1 << 20)
        check_power("depth", self.depth)
        check_range("tests", self.tests, 0, MAX_BAND_TESTS)
        if self.tests:
            check_range("key_bits", self.key_bits, 2, 64)
        else:
            check_range("key_bits", self.key_bits, 1, 1 << 12)
        check_range("time_bits", self.time_bits, 0, 64)
        check_range("payload_a_bits", self.payload_a_bits, 1, 1 << 12)
        check_range("payload_b_bits", self.payload_b_bits, 1, 1 << 12)
        if not isinstance(self.parallel, bool):
            raise TypeError(f"parallel must be a bool, not {self.parallel!r}")
        check_range("outputs", self.outputs, 1, 2)
        for name in ("memory_a", "memory_b"):
            if getattr(self, name) not in get_args(MemoryKind):
                raise ValueError(f"{name} must be auto or uram, not {getattr(self, name)!r}")
        check_range("records", self.records, self.in_flight, 1 << 10)
        check_range("counter_bits", self.counter_bits, 1, 64)

    @property
    def is_band(self) -> bool:
        return self.tests > 0

    @property
    def band(self) -> JoinConfig:
        """The band test's build."""
        return JoinConfig(tests=self.tests, key_bits=self.key_bits)

    @property
    def window_bits(self) -> int:
        """Keys of a tuple in a queue."""
        return self.key_bits * max(self.tests, 1)

    @property
    def probe_bits(self) -> int:
        """Keys of a tuple that is matched with a queue: in band form all low bounds, then all high
        bounds."""
        return self.window_bits * (2 if self.is_band else 1)

    @property
    def payload_bits(self) -> tuple[int, int]:
        """Payload widths of sides A and B."""
        return self.payload_a_bits, self.payload_b_bits

    @property
    def bank_bits(self) -> int:
        """Bits of a slot number that name the bank."""
        return self.banks.bit_length() - 1

    @property
    def slot_bits(self) -> int:
        """Width of a slot number."""
        return self.depth.bit_length() - 1

    @property
    def memories(self) -> tuple[MemoryKind, MemoryKind]:
        """What the tuples of sides A and B lie in."""
        return self.memory_a, self.memory_b

    @property
    def read_cycles(self) -> int:
        """Cycles from a row's address to its tuples: UltraRAM needs its output register."""
        return 2 if "uram" in self.memories else 1

    @property
    def result_cycles(self) -> int:
        """Cycles from the step of a scan to the results of its row."""
        return _TEST_CYCLES + self.read_cycles

    @property
    def in_flight(self) -> int:
        """Groups of results that may still come when the output layer says stop."""
        return self.result_cycles + _STOP_CYCLES

    @property
    def chunk(self) -> int:
        """Results of a group that are taken out of it at once."""
        return min(self.banks, CHUNK)

    @property
    def held_results(self) -> int:
        """Most results, of both sides together, between the scans and the output port."""
        groups = (self.records + self.in_flight) * self.banks
        chunks = 3 * self.chunk  # two in the stage behind the groups, one that is expanded
        return 2 * (groups + chunks) + 2 * self.outputs

    def round_cycles(self, rows_a: int, rows_b: int) -> int:
        """Cycles from one start of a round to the next while the output never stops it.

        Parameters
        ----------
        rows_a, rows_b : int
            Sizes of the windows over A and B that are searched; 0 where none is.

        Returns
        -------
        int
            ROWS / P + 2 of the larger window, rounded up: with one bank the ROWS + 2 of paper 4.
        """
        return -(-max(rows_a, rows_b) // self.banks) + 2
