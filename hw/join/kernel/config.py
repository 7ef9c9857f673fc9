"""Build-time knobs of a join kernel and the sizes that follow from them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...checks import check_power_range, check_range
from ...kernel.sizes import PortSizes
from ..config import JoinConfig

#: Width of a record in memory.
RECORD_BITS = 64

#: Most pipelines of a kernel.
MAX_PIPELINES = 16

#: Bits of a record that name the window tuple and the block; the others are its mask.
_NAME_BITS = 32


@dataclass(frozen=True, kw_only=True)
class KernelConfig(PortSizes):
    """One build of the kernel.

    Parameters
    ----------
    join : JoinConfig
        The pipeline. Positions have 32 bits; :meth:`fit` gives ordinals their width.
    pipelines : int
        Pipelines that share the readers; together they are as one of so many times the units.
    lead_tuples : int
        Window tuples by which one pipeline may be ahead of another.
    lane_records : int
        Room of a result lane, a power of two. A word leaves when one lane is half full.

    Others are those of :class:`PortSizes`.
    """

    join: JoinConfig
    pipelines: int = 1
    lead_tuples: int = 32
    lane_records: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.join, JoinConfig):
            raise TypeError(f"join must be a JoinConfig, not {self.join!r}")
        check_range("pipelines", self.pipelines, 1, MAX_PIPELINES)
        for name, low, high in (
            ("lead_tuples", 4, 1 << 10),
            ("lane_records", 4, 1 << 10),
        ):
            check_power_range(name, getattr(self, name), low, high)
        if self.join.position_bits != 32:
            raise ValueError(f"position_bits must be 32, not {self.join.position_bits!r}")
        if self.join.ordinal_bits + self.member_bits != _NAME_BITS:
            raise ValueError(
                f"ordinal_bits must be {_NAME_BITS - self.member_bits} for {self.blocks} "
                f"blocks, not {self.join.ordinal_bits!r}"
            )

    @staticmethod
    def fit(join: JoinConfig, pipelines: int = 1, word_bits: int = 512) -> KernelConfig:
        """A kernel of this pipeline, its ordinals as wide as a record has room for."""
        blocks = join.blocks * pipelines if isinstance(pipelines, int) else join.blocks
        lanes = max(word_bits // RECORD_BITS, 1) if isinstance(word_bits, int) else 1
        ordinal_bits = _NAME_BITS - _member_bits(max(blocks, 1), lanes)
        join = replace(join, ordinal_bits=ordinal_bits)
        return KernelConfig(join=join, pipelines=pipelines, word_bits=word_bits)

    @property
    def units(self) -> int:
        """Units of all pipelines."""
        return self.join.units * self.pipelines

    @property
    def blocks(self) -> int:
        """Blocks of all pipelines: those of the first one come first."""
        return self.join.blocks * self.pipelines

    @property
    def member_bits(self) -> int:
        """Bits that name a block among those of its lane."""
        return _member_bits(self.blocks, self.lanes)

    def blocks_of(self, lane: int) -> range:
        """Blocks whose records go through a lane."""
        return range(lane, self.blocks, self.lanes)

    @property
    def lanes(self) -> int:
        """Records in a word."""
        return self.word_bits // RECORD_BITS

    @property
    def used_lanes(self) -> int:
        """Lanes that any block uses."""
        return min(self.lanes, self.blocks)

    @property
    def reserve_words(self) -> int:
        """Most result words that may follow after the head was told to stop.

        Each word holds a record at least: of a block's FIFO with what may reach it, of a lane, or
        of the few cycles until words are counted and the head hears of it.
        """
        in_flight = self.pipelines * self.join.in_flight_records
        return in_flight + self.used_lanes * self.lane_records + 9

    @property
    def least_result_words(self) -> int:
        """Smallest result room in which every task makes progress, without the header.

        A task gets as far as its slowest pipeline: the others may fill words with a record each
        for as many window tuples as they may be ahead.
        """
        ahead = (self.pipelines - 1) * self.lead_tuples * self.join.window_records
        return self.reserve_words + ahead + 1

    @property
    def table_words(self) -> int:
        """32-bit registers that hold the truth table."""
        return -(-self.join.table_bits // 32)


def _member_bits(blocks: int, lanes: int) -> int:
    return (-(-blocks // lanes) - 1).bit_length()
