"""All build-time knobs of a join pipeline and the widths that follow from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from penstock.errors import DeviceError
from penstock.passes import Pass, plan, plan_batches
from penstock.program import MAX_BAND_TESTS, GeneralProgram, Mode

from ..checks import check_range
from ..hls.check import refusal
from ..hls.delay import DelayModel
from ..hls.lower import lower, lower_value
from ..hls.schedule import Schedule, schedule
from .modes import MODE_BITS, Folding, refused_sum

if TYPE_CHECKING:
    from .chain import BaseChain

#: Most units of a block: its mask and its ordinal are one 64-bit record.
MAX_UNITS_PER_BLOCK = 32

#: Widest window-side value of a band build.
MAX_VALUE_BITS = 64

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
        Predicate to build in, and the value that modes fold.
    modes : frozenset of Mode
        What tasks can ask for; PAIRS is one of them. Aggregates cost area in every unit.
    value_bits : int
        Width of the window-side value that SUM, MIN and MAX of a band build fold, signed; 0 if no
        mode needs one, and in general form.
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
    modes: frozenset[Mode] = frozenset({Mode.PAIRS})
    value_bits: int = 0
    spare_records: int = 16
    max_load_flits: int = 2
    position_bits: int = 32
    ordinal_bits: int = 32
    delays: DelayModel = field(default_factory=DelayModel)

    def __post_init__(self) -> None:
        check_range("units", self.units, 2, 1 << 16)
        check_range("units_per_block", self.units_per_block, 1, MAX_UNITS_PER_BLOCK)
        check_range("key_bits", self.key_bits, 2, 64)
        check_range("spare_records", self.spare_records, 1, 1 << 16)
        check_range("max_load_flits", self.max_load_flits, 1, 64)
        check_range("position_bits", self.position_bits, 1, 64)
        check_range("ordinal_bits", self.ordinal_bits, 1, 64)
        if not isinstance(self.delays, DelayModel):
            raise TypeError(f"delays must be a DelayModel, not {self.delays!r}")
        check_range("tests", self.tests, 0, MAX_BAND_TESTS)
        if (self.tests == 0) == (self.program is None):
            raise ValueError(
                f"exactly one of tests and program must be given, not {self.tests!r} and "
                f"{self.program!r}"
            )
        if self.program is not None:
            if not isinstance(self.program, GeneralProgram):
                raise TypeError(f"program must be a GeneralProgram, not {self.program!r}")
            if reason := refusal(self.program, value=self._needs_value):
                raise DeviceError(reason)
        self._check_modes()

    def _check_modes(self) -> None:
        if not isinstance(self.modes, frozenset) or not all(
            isinstance(mode, Mode) for mode in self.modes
        ):
            raise TypeError(f"modes must be a frozenset of modes, not {self.modes!r}")
        if Mode.PAIRS not in self.modes:
            raise ValueError("modes must have PAIRS among them")
        check_range("value_bits", self.value_bits, 0, MAX_VALUE_BITS)
        needed = self.is_band and self._needs_value
        if needed != (self.value_bits > 0):
            raise ValueError(
                "value_bits must be given for the modes of a band build that fold a value, and "
                f"for no others, not {self.value_bits!r}"
            )
        if self.is_band and Mode.NEAREST in self.modes:
            raise ValueError("modes of a band build cannot have NEAREST among them")
        if self.program is not None and self.modes - self.program.modes:
            raise ValueError("program must have a value for modes that fold one")
        if Mode.SUM in self.modes and (
            reason := refused_sum(self.operand_bits, self.position_bits)
        ):
            raise DeviceError(reason)

    @property
    def _needs_value(self) -> bool:
        return any(mode.needs_value for mode in self.modes)

    @property
    def is_band(self) -> bool:
        return self.program is None

    @cached_property
    def schedule(self) -> Schedule:
        """Stages of a general program.

        The unit adds one LUT: a match counts if it is live, an operand is inverted for MAX.
        """
        if self.program is None:
            raise ValueError("only a general program has a schedule, not a band program")
        return schedule(
            lower(self.program),
            self.delays,
            value=lower_value(self.program) if self._needs_value else None,
            tail_ps=self.delays.lut_ps,
        )

    @cached_property
    def folding(self) -> Folding | None:
        """What the units of a build with aggregates have; None in a build without."""
        if self.modes == {Mode.PAIRS}:
            return None
        return Folding(self.modes, self.operand_bits, self.position_bits)

    @property
    def operand_bits(self) -> int:
        """Width of the value that is folded, signed; 0 if no mode needs one."""
        if not self._needs_value or self.program is None or self.program.value is None:
            return self.value_bits
        return self.program.value.type.signed_bits

    @property
    def table_bits(self) -> int:
        """Entries of the truth table; 0 in general form."""
        return 1 << self.tests if self.is_band else 0

    @property
    def table_in_units(self) -> bool:
        """Whether each unit keeps the table in LUTRAM, rather than each block in registers."""
        return self.tests > MAX_REGISTER_TESTS

    @property
    def entry_bits(self) -> int:
        """What a CONFIG flit carries: an entry of the truth table, a mode; 0 in neither case."""
        table = self.tests + 1 if self.is_band else 0
        return table + (MODE_BITS if self.folding else 0)

    @property
    def key_bits_of_window(self) -> int:
        """Prepared keys of a window tuple."""
        if self.program is None:
            return self.tests * self.key_bits
        return sum(dtype.bits for dtype in self.program.window)

    @property
    def window_bits(self) -> int:
        """A window tuple: keys, and behind them a band build's value."""
        return self.key_bits_of_window + self.value_bits

    @property
    def stream_bits(self) -> int:
        """Prepared keys of a stream tuple: all low bounds and then all high bounds in band form."""
        if self.program is None:
            return 2 * self.key_bits_of_window
        return sum(dtype.bits for dtype in self.program.stream)

    @property
    def payload_bits(self) -> int:
        """Width of a flit's payload.

        Each bit costs a register per unit, each flit of a load a cycle per stream tuple: a window
        tuple's keys fit one flit by necessity, a stream tuple ``max_load_flits``; in a build with
        aggregates also what a unit gives for its tuple, so that one leaves per cycle.
        """
        folded = max(self.folding.layout.size, self.entry_bits) if self.folding else 1
        return max(self.key_bits_of_window, -(-self.stream_bits // self.max_load_flits), folded)

    @property
    def load_flits(self) -> int:
        """Flits of a load."""
        return max(-(-self.stream_bits // self.payload_bits), 1)

    @property
    def part_bits(self) -> int:
        """What each flit of a load carries of the stream tuple."""
        return max(-(-self.stream_bits // self.load_flits), 1)

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
    def fold_cycles(self) -> int:
        """Cycles from a window flit in a unit until its match is in the unit's value.

        A general build that folds a value has a register in front of the fold. Not less than 2: a
        stopped tuple can be collected in the cycle after its stop.
        """
        return max(self.test_cycles + 1 + (not self.is_band and self._needs_value), 2)

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

    @property
    def value_reserve(self) -> int:
        """Values that may still reach the outlet after it reports that it is full.

        As :meth:`reserve`: to the head a cycle per block and its output register, back a cycle per
        unit.
        """
        return self.units + self.blocks + 2

    @property
    def outlet_depth(self) -> int:
        """Room of the outlet for values."""
        return self.value_reserve + self.spare_records

    def fifo_depth(self, block: int) -> int:
        return self.reserve(block) + self.spare_records

    @property
    def window_records(self) -> int:
        """Most records that a window tuple causes."""
        return self.blocks

    @property
    def in_flight_records(self) -> int:
        """Most records that may leave the chain after its head was told to stop."""
        return sum(self.fifo_depth(block) for block in range(self.blocks))

    @property
    def drain_cycles(self) -> int:
        """Cycles from the head's last flit until a report that all FIFOs are empty is current."""
        return self.reserve(self.blocks - 1) + self.blocks

    @property
    def batched(self) -> bool:
        """Which passes the pipeline takes: those of ``plan_batches`` rather than of ``plan``."""
        return False

    def plan(self, start: np.ndarray, end: np.ndarray) -> list[Pass]:
        """Passes of a task."""
        return (plan_batches if self.batched else plan)(start, end, self.units)

    def chain(self) -> BaseChain:
        """The hardware of this build."""
        # The classes of the chain need this module.
        from .pipeline import Chain

        return Chain(self)
