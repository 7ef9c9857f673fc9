"""Build-time knobs of the paper's pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import DeviceError
from penstock.program import Mode

from ...checks import check_power
from ..config import JoinConfig

if TYPE_CHECKING:
    from ..chain import BaseChain

#: Results in the outlet's FIFO above which the units are stalled.
STALL_LEVEL = 4


@dataclass(frozen=True, kw_only=True)
class FJoinConfig(JoinConfig):
    """One build of the paper's pipeline.

    The predicate is built in, and PAIRS is the only mode. Knobs of band form, of flits, of stages
    and of the blocks' FIFOs have no effect: the unit has none of these.

    Parameters
    ----------
    program : GeneralProgram
        The predicate.
    units : int
        Join units, which is the most stream tuples of a pass.
    units_per_block : int
        A power of two. Blocks are only names: a result of stream tuple k of its pass is written
        as a record of block ``k // units_per_block`` whose mask has one bit.
    """

    def __post_init__(self) -> None:
        if self.program is None:
            raise DeviceError(
                "the paper's unit has its predicate built in; give it a program, not band tests"
            )
        super().__post_init__()
        if self.modes != {Mode.PAIRS}:
            raise DeviceError("the paper's unit emits pairs only, it does not fold them")
        check_power("units_per_block", self.units_per_block)

    @property
    def seq_bits(self) -> int:
        """Width of a stream tuple's number in its pass."""
        return (self.units - 1).bit_length()

    @property
    def outlet_records(self) -> int:
        """Results that the outlet can hold.

        A stall takes a cycle per unit to the head, and a result as long from there.
        """
        return STALL_LEVEL + 2 * self.units + 4

    @property
    def window_records(self) -> int:
        """Most records that a window tuple causes: one per match."""
        return self.units

    @property
    def in_flight_records(self) -> int:
        """Most records that may leave the chain after its head was told to stop.

        A window tuple in unit k may meet matches in all units from there on, and every unit may
        hold one; results are in the units' registers and at the outlet.
        """
        return self.units * (self.units + 1) // 2 + self.units + 1 + self.outlet_records

    @property
    def drain_cycles(self) -> int:
        """Cycles until a report that all FIFOs are empty is current: it counts window tuples."""
        return 2

    @property
    def batched(self) -> bool:
        """It loads all tuples of a pass, lets the window flow, and clears."""
        return True

    def chain(self) -> BaseChain:
        """The hardware of this build."""
        # The classes of the chain need this module.
        from .chain import FJoinChain

        return FJoinChain(self)
