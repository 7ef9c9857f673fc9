"""Hardware: cycles of the join pipeline and of the window kernel, and transfers to a board.

Cycles are computed from the flits of the pipeline's head (docs/hardware/planning.md), and from the
rounds of the window operator (docs/hardware/window-operator.md). The constants were fitted to the
counted cycles of the Verilated kernels with memory that answers at once; ``tests/host/model``
compares them.

Two orders are in flight on a lane (:mod:`penstock.host.execute.lane`): one is transferred while the
other is evaluated. Transfers are hidden if a batch's transfers end before the next batch is cut.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from penstock.errors import UsageError

from .load import BatchHalf, Load, check_above_0, check_not_negative

#: Flits that load a stream tuple of two band tests.
LOAD_FLITS = 2
#: Cycles of a pass besides its flits: its order and its CLEAR.
PASS_CYCLES = 2
#: Cycles of a task besides its passes and the chain (a cycle per unit): start, first words from
#: memory, registers between head, blocks and lanes, report, header. Tasks that were counted take up
#: to four more: where ranges slide, or a pass holds one tuple.
TASK_CYCLES = 28
#: Words of memory in a burst, one a cycle. A task waits for the stream tuples of the first burst
#: only; the others come while the window flows.
FETCH_BURST = 64
#: Words of 512 bits that a stream tuple of two band tests takes.
TUPLE_WORDS = 0.5
#: Most units of one pipeline.
MOST_UNITS = 1 << 16


def task_cycles(
    probe: BatchHalf, units: int, *, tuple_words: float = TUPLE_WORDS, window_words: float = 1
) -> float:
    """Cycles of a task of one pipeline, from start to header.

    A pass holds ``units`` stream tuples while the window flows past them. If ranges slide so far
    that each unit is free when its next tuple comes, one pass takes all tuples.

    Parameters
    ----------
    probe : BatchHalf
        At least one stream tuple.
    units : int
        Units of the pipeline.
    tuple_words, window_words : float, optional
        Words of the memory ports that a stream tuple takes, and a window tuple.
    """
    tuples, window, slide = probe.stream_tuples, probe.window_tuples, probe.slide_tuples
    passes = 1 if window <= units * slide else math.ceil(tuples / units)
    window_flits = passes * window + max(tuples - passes, 0) * slide
    window_cycles = window_flits * max(window_words, 1)
    # The pass's CLEAR retires the tuples whose ranges end with the pass.
    at_end = passes * max(1.0, 1 / slide) if slide else tuples
    retire_flits = max(tuples - at_end, 0)
    fetch = min(tuple_words * tuples, FETCH_BURST)
    cycles = window_cycles + LOAD_FLITS * tuples + retire_flits
    return cycles + PASS_CYCLES * passes + TASK_CYCLES + units + fetch


@dataclass(frozen=True, kw_only=True)
class PipelineModel:
    """Equal pipelines that share the tuples of each batch.

    Parameters
    ----------
    units : int
        Units of each.
    clock_hz : float
    pipelines : int

    Raises
    ------
    UsageError
        A value is out of range.
    """

    units: int
    clock_hz: float
    pipelines: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.units <= MOST_UNITS:
            raise UsageError(f"units must be 1 to {MOST_UNITS}, not {self.units!r}")
        check_above_0(clock=self.clock_hz, pipelines=self.pipelines)

    def cycles_per_s(self, load: Load) -> float:
        """Cycles that each pipeline needs per second."""
        return sum(self._cycles(probe) for probe in load.probes) / load.interval_s

    def _cycles(self, probe: BatchHalf) -> float:
        """Cycles of each pipeline for a batch's tuples of one stream."""
        if probe.window_tuples == 0:
            return 0.0
        share = probe.stream_tuples / self.pipelines
        # At less than one tuple per batch, only some batches have a tuple.
        part = BatchHalf(max(share, 1.0), probe.window_tuples, probe.slide_tuples * self.pipelines)
        return min(share, 1.0) * task_cycles(part, self.units)

    def utilisation(self, load: Load) -> float:
        """Needed cycles over available cycles; above 1, the load is not sustained."""
        return self.cycles_per_s(load) / self.clock_hz

    def evaluating(self, load: Load) -> float:
        """Share of the unit-cycles of a load that evaluate: the paper's η."""
        have = self.cycles_per_s(load) * self.units * self.pipelines
        return load.evaluations_per_s / have


#: Transfers of a batch: new window tuples, stream tuples and results, for both streams.
TRANSFERS = 6


@dataclass(frozen=True, kw_only=True)
class TransferLink:
    """A link, and the data that it carries.

    Parameters
    ----------
    bandwidth_bytes_per_s : float
        The default of 12 GB/s is the net rate of PCIe 3.0 with 16 lanes.
    transfer_s : float
        Fixed cost of a transfer. The default is an assumption: no board was measured.
    tuple_bytes : float
        Bytes of an arriving tuple, as stream tuple plus as window tuple. The default is for two
        band tests on 32-bit keys: four bounds with their range padded to 32 bytes, and two keys.

    Raises
    ------
    UsageError
        A value is out of range.
    """

    bandwidth_bytes_per_s: float = 12e9
    transfer_s: float = 30e-6
    tuple_bytes: float = 40.0

    def __post_init__(self) -> None:
        check_above_0(
            bandwidth_bytes_per_s=self.bandwidth_bytes_per_s, tuple_bytes=self.tuple_bytes
        )
        check_not_negative(transfer_s=self.transfer_s)

    def batch_s(self, load: Load) -> float:
        """Seconds that the transfers of a batch take."""
        moved = load.rate_per_s * load.interval_s * self.tuple_bytes
        return TRANSFERS * self.transfer_s + moved / self.bandwidth_bytes_per_s

    def utilisation(self, load: Load) -> float:
        """Share of the link's time that a load takes; above 1, transfers are not hidden."""
        return self.batch_s(load) / load.interval_s

    def smallest_latency_s(self, load: Load) -> float | None:
        """Smallest latency target at which transfers are hidden; None if the link is too slow."""
        left = 1 - load.rate_per_s * self.tuple_bytes / self.bandwidth_bytes_per_s
        if left <= 0:
            return None
        return TRANSFERS * self.transfer_s / left * load.latency_s / load.interval_s


#: Cycles of a round of the window kernel, besides its reads.
ROUND_CYCLES = 2
#: Cycles of a task of the window kernel, besides its rounds: start, truth tables, first words from
#: memory, header.
WINDOW_TASK_CYCLES = 20


def round_cycles(rows: int, banks: int) -> int:
    """Cycles from one tuple of a side to the next while results have room to leave."""
    return -(-rows // banks) + ROUND_CYCLES


def window_task_cycles(
    tuples: int, history: int, rows: int, banks: int, tuple_words: float = 1
) -> float:
    """Cycles of a task whose tuples come from both sides in turn, with few results.

    Each round takes a tuple of each side. The first tuple goes alone, each later one of its side
    with the other side's tuple before it: one round more than tuples per side.

    Parameters
    ----------
    tuples : int
        Tuples that are matched.
    history : int
        Tuples that fill the windows first, as fast as memory gives them.
    rows : int
        Size of both windows.
    banks : int
        Queue tuples that the operator tests per cycle and side.
    tuple_words : float, optional
        Words of the memory port that a tuple takes; the operator takes one tuple a cycle at most.
    """
    fill = history * max(tuple_words, 1)
    return fill + (tuples // 2 + 1) * round_cycles(rows, banks) + WINDOW_TASK_CYCLES
