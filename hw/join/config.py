"""All build-time knobs of a join pipeline and the widths that follow from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from penstock.errors import DeviceError
from penstock.hw.hls.check import refusal
from penstock.hw.hls.delay import DelayModel
from penstock.hw.hls.lower import lower
from penstock.hw.hls.schedule import Schedule, schedule
from penstock.hw.join.passes import Pass, plan
from penstock.program import MAX_BAND_TESTS, GeneralProgram

if TYPE_CHECKING:
    from penstock.hw.join.chain import BaseChain

#: Most units of a block: its mask and its ordinal are one 64-bit record.
MAX_UNITS_PER_BLOCK = 32

#: Largest band truth table that is cheaper as one register per block than as LUTRAM per unit.
MAX_REGISTER_TESTS = 4

#: Latency of a band test: one rank of comparators, then the table.
BAND_LATENCY_CYCLES = 1


@dataclass(frozen=True, kw_only=True)
class JoinConfig:
    """One build of the join pipeline.

    Exactly one of ``tests`` (band form) and ``program`` (general form) is given.

    Parameters
    ----------
    units : int
        Join units N: the most stream tuples that are active at a time.
    units_per_block : int
        Units that share a result FIFO and a mask, at most 32.
    tests : int
        Band tests D; 0 in general form. Bounds and truth table are loaded at run time.
    key_bits : int
        Width of a band code.
    program : GeneralProgram, optional
        Predicate to build in.
    spare_records : int
        Room of a block's FIFO beyond what may be in flight when it fills up.
    max_load_flits : int
        A flit is made wide enough to load a stream tuple with this many.
    position_bits : int
        Width of window positions and of ranges.
    ordinal_bits : int
        Width of the count of window flits in a record; a task must be shorter than its range.
    delays : DelayModel
        How a general program is cut into stages.
    """

    units: int = 64
    units_per_block: int = 32
    tests: int = 0
    key_bits: int = 32
    program: GeneralProgram | None = None
    spare_records: int = 16
    max_load_flits: int = 2
    position_bits: int = 32
    ordinal_bits: int = 32
    delays: DelayModel = field(default_factory=DelayModel)

    def __post_init__(self) -> None:
        _check("units", self.units, 2, 1 << 16)
        _check("units_per_block", self.units_per_block, 1, MAX_UNITS_PER_BLOCK)
        _check("key_bits", self.key_bits, 2, 64)
        _check("spare_records", self.spare_records, 1, 1 << 16)
        _check("max_load_flits", self.max_load_flits, 1, 64)
        _check("position_bits", self.position_bits, 1, 64)
        _check("ordinal_bits", self.ordinal_bits, 1, 64)
        if not isinstance(self.delays, DelayModel):
            raise TypeError(f"delays must be a DelayModel, not {self.delays!r}")
        _check("tests", self.tests, 0, MAX_BAND_TESTS)
        if (self.tests == 0) == (self.program is None):
            raise ValueError(
                f"exactly one of tests and program must be given, not {self.tests!r} and "
                f"{self.program!r}"
            )
        if self.program is None:
            return
        if not isinstance(self.program, GeneralProgram):
            raise TypeError(f"program must be a GeneralProgram, not {self.program!r}")
        if reason := refusal(self.program):
            raise DeviceError(reason)

    @property
    def is_band(self) -> bool:
        return self.program is None

    @cached_property
    def schedule(self) -> Schedule:
        """Stages of a general program. The unit adds one LUT: a result counts if it is live."""
        if self.program is None:
            raise ValueError("only a general program has a schedule, not a band program")
        return schedule(lower(self.program), self.delays, tail_ps=self.delays.lut_ps)

    @property
    def table_bits(self) -> int:
        """Entries of the truth table; 0 in general form."""
        return 1 << self.tests if self.is_band else 0

    @property
    def table_in_units(self) -> bool:
        """Whether each unit keeps the table in LUTRAM, rather than each block in registers."""
        return self.tests > MAX_REGISTER_TESTS

    @property
    def window_bits(self) -> int:
        """Prepared keys of a window tuple."""
        if self.program is None:
            return self.tests * self.key_bits
        return sum(dtype.bits for dtype in self.program.window)

    @property
    def stream_bits(self) -> int:
        """Prepared keys of a stream tuple: all low bounds and then all high bounds in band form."""
        if self.program is None:
            return 2 * self.window_bits
        return sum(dtype.bits for dtype in self.program.stream)

    @property
    def payload_bits(self) -> int:
        """Width of a flit's payload.

        Each bit costs a register per unit, each flit of a load a cycle per stream tuple: a window
        tuple fits one flit by necessity, a stream tuple ``max_load_flits``.
        """
        return max(self.window_bits, -(-self.stream_bits // self.max_load_flits), 1)

    @property
    def load_flits(self) -> int:
        """Flits of a load."""
        return max(-(-self.stream_bits // self.payload_bits), 1)

    @property
    def blocks(self) -> int:
        return -(-self.units // self.units_per_block)

    def units_of(self, block: int) -> range:
        """Units of a block; the last block may have fewer."""
        first = block * self.units_per_block
        return range(first, min(first + self.units_per_block, self.units))

    @property
    def test_cycles(self) -> int:
        """Cycles from a unit's flit register to its match bit, which is not registered."""
        return BAND_LATENCY_CYCLES if self.is_band else self.schedule.latency

    @property
    def settle_cycles(self) -> int:
        """Cycles a unit stays closed after its retirement.

        A load is at least two cycles behind the last window tuple of the unit's old tuple; a
        general program may need the old keys for longer.
        """
        return 0 if self.is_band else max(self.schedule.hold - 2, 0)

    def reserve(self, block: int) -> int:
        """Records that may still reach a block's FIFO after it reports that it is full.

        The block's report takes ``block + 1`` cycles to the head, plus one to the head's output
        register; a flit takes a cycle per unit, ``test_cycles``, one to the mask and one into the
        FIFO.
        """
        return self.units_of(block).stop + self.test_cycles + block + 4

    def fifo_depth(self, block: int) -> int:
        return self.reserve(block) + self.spare_records

    @property
    def in_flight_records(self) -> int:
        """Most records that may leave the chain after its head was told to stop."""
        return sum(self.fifo_depth(block) for block in range(self.blocks))

    @property
    def drain_cycles(self) -> int:
        """Cycles from the head's last flit until a report that all FIFOs are empty is current."""
        return self.reserve(self.blocks - 1) + self.blocks

    def plan(self, start: np.ndarray, end: np.ndarray) -> list[Pass]:
        """Passes of a task, see :func:`penstock.hw.join.passes.plan`."""
        return plan(start, end, self.units)

    def chain(self) -> BaseChain:
        """The hardware of this build."""
        # The classes of the chain need this module.
        from penstock.hw.join.pipeline import Chain

        return Chain(self)


def _check(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be {low} to {high}, not {value!r}")
