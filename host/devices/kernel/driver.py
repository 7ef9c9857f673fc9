"""Turns tasks into a join kernel's arguments and memory, and its result memory into outcomes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.errors import DeviceError
from penstock.passes import Pass, plan, plan_batches, recover
from penstock.program import BandProgram, Mode, Program

from ...device.checks import window_columns
from .packing import KernelTask, Packing, read_header, truth_table
from .pipeline_task import PipelineTask, Stop, TaskOutcome, read_folds

#: Counters of the header that a result carries.
_COUNTERS = ("cycles", "window_flits", "admission_stalls", "memory_waits", "records", "passes")


@dataclass(frozen=True, kw_only=True)
class JoinKernelTask(KernelTask):
    """A task for a join kernel.

    Parameters
    ----------
    work : PipelineTask
    passes : sequence of Pass
    steps : int
        Flits, tuples and passes, in each of which a kernel spends a cycle or a few.
    """

    work: PipelineTask
    passes: Sequence[Pass]
    steps: int


class KernelDriver:
    """Runs a program on a build of the join kernel; it does not access memory itself.

    Parameters
    ----------
    table : mapping
        The kernel's exported table.
    program : Program
    result_words : int
        Most result words of a task beyond the kernel's minimum. A task that needs more pauses.
    """

    def __init__(self, table: Mapping[str, Any], program: Program, result_words: int) -> None:
        self.table = table
        geometry = table["geometry"]
        self._geometry = geometry
        self.units: int = geometry["units"] * geometry["pipelines"]
        self._plan = plan_batches if geometry["batched"] else plan
        self._result_words = result_words
        columns, values = len(window_columns(program)), 0
        #: Registers of the truth table, if the program has one.
        self._registers: dict[str, int] = {}
        if isinstance(program, BandProgram):
            values = columns - program.tests
            self._registers = truth_table(program.table, program.tests, geometry["tests"], "table")
        self.packing = Packing(table, window_keys=columns - values, window_values=values)

    def job(self, work: PipelineTask, capacity: int) -> JoinKernelTask:
        """The kernel's task for a window of ``capacity`` positions.

        Raises
        ------
        DeviceError
            It takes more window flits than a kernel can count.
        """
        packing, start, end = self.packing, work.start, work.end
        passes = self._plan(start, end, self.units)
        begins, ends = (np.array([getattr(p, name) for p in passes]) for name in ("begin", "end"))
        flits, most = int((ends - begins).sum()), 1 << self._geometry["ordinal_bits"]
        if flits > most:
            raise DeviceError(f"the task takes {flits} window flits, more than {most}; cut it")
        if work.mode is Mode.PAIRS:
            room = self._geometry["least_result_words"] + min(work.room, self._result_words)
        else:
            room = packing.value_words(len(start))
        counts = np.array([part.stop - part.first for part in passes])
        return JoinKernelTask(
            work=work,
            passes=passes,
            images={
                "passes": packing.passes(counts, begins, ends),
                "tuples": packing.tuples(work.columns, start, end),
            },
            result_bytes=packing.header_bytes + room * packing.word_bytes,
            arguments={
                "pass_count": len(passes),
                "tuple_count": len(start),
                "window_count": capacity,
                "result_words": room,
                "mode": self.table["modes"][work.mode.value],
                **self._registers,
            },
            steps=flits + len(start) + len(passes),
        )

    def outcome(self, job: JoinKernelTask, results: np.ndarray) -> TaskOutcome:
        """The outcome of a task.

        Parameters
        ----------
        job : JoinKernelTask
        results : ndarray of uint8
            Memory of the results, at least the header and the words that it counts.

        Raises
        ------
        DeviceError
            The task ended with a status that has no result.
        """
        begin = self.packing.header_bytes
        header, paused = read_header(self.table, results[:begin])
        words = results[begin : begin + header["words"] * self.packing.word_bytes]
        work, passes, geometry = job.work, job.passes, self._geometry
        counters = {name: header[name] for name in _COUNTERS} | {"result_words": header["words"]}
        if work.mode is not Mode.PAIRS:
            values = self.packing.values(words, len(work.start))
            fields, bits = geometry["value_fields"], geometry["operand_bits"]
            folds = read_folds(fields, bits, work.mode, values, work.start)
            none = np.array([], np.int64)
            return TaskOutcome(none, none, None, counters, folds)
        records = self.packing.records(words)
        flits = sum(part.end - part.begin for part in passes)
        several = geometry["pipelines"] > 1
        seen = header["position"] if paused and several else flits
        keep, cut = _fit(records.ordinal, seen, work.room)
        stop = None if cut == flits else _stop(cut, work, passes)
        if stop is None and paused and not several:
            stop = Stop(header["complete"], header["loaded"], header["position"])
        i, j = recover(passes, work.start, self.units, records.unit[keep], records.ordinal[keep])
        return TaskOutcome(i, j, stop, counters)


def _fit(ordinal: np.ndarray, seen: int, room: int) -> tuple[np.ndarray, int]:
    """Select the matches to return, and find the ordinal below which they are complete.

    All matches below ``seen`` are there. The kernel counts words and the contract counts pairs, so
    there may be more than ``room``: the surplus is cut off at a window tuple.
    """
    keep = ordinal < seen
    complete = ordinal[keep]
    if len(complete) <= room:
        return keep, seen
    # The first ordinal with a match beyond the room.
    cut = int(np.partition(complete, room)[room])
    return ordinal < cut, cut


def _stop(cut: int, work: PipelineTask, passes: Sequence[Pass]) -> Stop:
    """Point at which a task stops if only its matches below an ordinal count."""
    upto = np.cumsum([part.end - part.begin for part in passes])
    number = int(np.searchsorted(upto, cut, side="right"))
    part = passes[number]
    position = part.end - int(upto[number]) + cut
    loaded = part.first + int(np.searchsorted(work.start[part.first : part.stop], position))
    complete = part.first + int(
        np.searchsorted(work.end[part.first : loaded], position, side="right")
    )
    return Stop(complete, loaded, position)
