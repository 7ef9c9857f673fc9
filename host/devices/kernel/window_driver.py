"""Turns window tasks into a window kernel's arguments and memory, and its memory into results."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.errors import DeviceError
from penstock.program import BandProgram, Mode, WindowProgram

from ...device.base import PAIRS, Kernel, Pause, Result
from ...device.checks import check_window_task
from ...device.window_join import Arrivals, WindowTask
from .packing import KernelLayout, KernelTask, item_slots, read_header, truth_table

#: Counters of the header that a result carries.
_COUNTERS = ("cycles", "results", "output_waits", "memory_waits")


#: Bits of a tuple's side; the kernel looks at the lowest one.
_SIDE_BITS = 8


@dataclass(frozen=True)
class WindowPacking(KernelLayout):
    """The memory layout of a window kernel."""

    def tuples(self, tuples: Arrivals) -> np.ndarray:
        """Tuples in order of arrival, as whole words.

        Band programs may have fewer tests than the kernel; keys of the other tests are 0.
        """
        geometry = self._geometry
        tests, bits = geometry["tests"], geometry["key_bits"]
        none = np.zeros(len(tuples), np.uint8)
        columns = []
        for part in (
            tuples.window,
            (tuples.stream[0][::2], tuples.stream[1][::2]),
            (tuples.stream[0][1::2], tuples.stream[1][1::2]),
        ):
            for test in range(tests):
                a, b = (side[test] if test < len(side) else None for side in part)
                columns.append(none if a is None and b is None else _merge_sides(tuples, a, b))
        widths = [*[bits] * len(columns), _SIDE_BITS]
        slots = item_slots([*columns, tuples.is_b], widths, geometry["tuple_slot_bits"])
        return self._whole(slots)

    def results(self, words: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the tuples of A and of B in the first ``count`` results."""
        pairs = words.view("<u4").reshape(-1, 2)[:count]
        return pairs[:, 0], pairs[:, 1]

    def least_room(self, rows: Sequence[int]) -> int:
        """Least room, in results of whole words, for windows of these sizes."""
        geometry = self._geometry
        results = geometry["tuples_in_flight"] * max(rows) + geometry["spare_results"]
        return -(-results // geometry["results_per_word"]) * geometry["results_per_word"]

    def words(self, results: int) -> int:
        """Whole words that ``results`` fill."""
        return results // self._geometry["results_per_word"]


def _merge_sides(tuples: Arrivals, a: np.ndarray | None, b: np.ndarray | None) -> np.ndarray:
    """A column of both sides in order of arrival."""
    merged = np.zeros(len(tuples), np.uint64)
    for chosen, column in ((~tuples.is_b, a), (tuples.is_b, b)):
        if column is not None:
            merged[chosen] = column
    return merged


@dataclass(frozen=True, kw_only=True)
class WindowKernelTask(KernelTask):
    """A task for a window kernel."""

    task: WindowTask


def operator_refusal(program: WindowProgram, modes: frozenset[Mode] = PAIRS) -> str | None:
    """Why no window-join operator runs a program, whatever its sizes; None if some do."""
    if modes - program.modes:
        return "the window-join operator gives pairs only; use the range operator for aggregates"
    if all(isinstance(part, BandProgram) for part in (program.a, program.b)):
        return None
    return (
        "the window-join operator has band tests only, and this predicate is in general form; use "
        "the range operator"
    )


class WindowDriver:
    """Runs a program on a build of the window kernel; it does not access memory itself.

    Parameters
    ----------
    table : mapping
        The kernel's exported table.
    program : WindowProgram
        In band form, with no more tests than the kernel.
    most_results : int
        Most results of a task beyond the kernel's minimum. A task that needs more pauses.
    """

    def __init__(self, table: Mapping[str, Any], program: WindowProgram, most_results: int) -> None:
        if reason := operator_refusal(program):
            raise DeviceError(reason)
        self._table, self._rows = table, program.rows
        self._packing = WindowPacking(table)
        #: Results that a task needs room for.
        self.least_room = self._packing.least_room(program.rows)
        self._most_results = self.least_room + most_results
        geometry = table["geometry"]
        #: Sizes of the operator and of the windows, for the counters of results.
        self.facts: dict[str, int] = {
            **{name: geometry[name] for name in ("banks", "depth")},
            **dict(zip(("rows_a", "rows_b"), program.rows, strict=True)),
        }
        self._registers: dict[str, int] = {}
        for side, part in (("a", program.a), ("b", program.b)):
            assert isinstance(part, BandProgram)
            self._registers |= truth_table(
                part.table, part.tests, geometry["tests"], f"table_{side}"
            )

    def job(self, task: WindowTask) -> WindowKernelTask:
        """The kernel's task, of at least one tuple."""
        packing = self._packing
        room = packing.words(min(task.room, self._most_results))
        return WindowKernelTask(
            task=task,
            images={"tuples": packing.tuples(task.tuples)},
            result_bytes=packing.header_bytes + room * packing.word_bytes,
            arguments={
                "tuple_count": task.rows,
                "history_count": task.history,
                "result_words": room,
                "rows_a": self._rows[0],
                "rows_b": self._rows[1],
                **self._registers,
            },
        )

    def result(self, job: WindowKernelTask, results: np.ndarray) -> Result:
        """The result of a task.

        Parameters
        ----------
        job : WindowKernelTask
        results : ndarray of uint8
            Memory of the results, at least the header and the words that it counts.

        Raises
        ------
        DeviceError
            The task ended with a status that has no result.
        """
        task, begin = job.task, self._packing.header_bytes
        header, _ = read_header(self._table, results[:begin])
        words = results[begin : begin + header["words"] * self._packing.word_bytes]
        numbers = self._packing.results(words, header["results"])
        number, done = task.tuples.number, header["tuples"]
        a, b = (number[numbers[side]].astype(np.uint32) for side in (0, 1))
        counters = {"evaluations": task.evaluations(self._rows, done)}
        counters |= {name: header[name] for name in _COUNTERS}
        counters |= {"tuples": max(done - task.history, 0), "history": min(done, task.history)}
        pause = None if done >= task.rows else Pause(done, done, 0)
        return Result(a, b, pause, counters)


class DrivenWindowKernel(Kernel):
    """A window program on window kernels, simulated or real.

    Parameters
    ----------
    driver : WindowDriver
    program : WindowProgram
    count : callable
        Takes the counters of each task.
    """

    def __init__(
        self,
        driver: WindowDriver,
        program: WindowProgram,
        count: Callable[[dict[str, int]], None],
    ) -> None:
        super().__init__(program)
        self.min_room = driver.least_room
        self._driver = driver
        self._count = count

    @abstractmethod
    def _execute(self, job: WindowKernelTask) -> np.ndarray:
        """Run a task; returns the memory of its results."""

    def _run(self, task: WindowTask) -> Result:
        """Check a task and run it."""
        check_window_task(self, task)
        facts = self._driver.facts
        if not task.rows:
            none = np.zeros(0, np.uint32)
            return Result(none, none, None, {"evaluations": 0, **facts})
        job = self._driver.job(task)
        result = self._driver.result(job, self._execute(job))
        self._count(dict(result.counters))
        return replace(result, counters={**result.counters, **facts})
