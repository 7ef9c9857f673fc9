"""Window tasks as a window kernel's arguments and memory, and results of what it left there."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.errors import DeviceError
from penstock.host.device.window_join import WindowKernel, WindowResult, WindowTask
from penstock.host.device.window_ranges import check_task
from penstock.host.driver.task import KernelTask, read_header, truth_table
from penstock.host.driver.window_packing import WindowPacking
from penstock.program import BandProgram, WindowProgram

#: Counters of the header that a result carries.
_COUNTERS = ("cycles", "results", "output_waits", "memory_waits")


@dataclass(frozen=True, kw_only=True)
class WindowJob(KernelTask):
    """A task for a window kernel."""

    task: WindowTask


def form_refusal(program: WindowProgram) -> str | None:
    """Why no window-join operator runs a program, whatever its sizes; None if some do."""
    if all(isinstance(part, BandProgram) for part in (program.a, program.b)):
        return None
    return (
        "the window-join operator has band tests only, and this predicate is in general form; use "
        "the range operator"
    )


class WindowDriver:
    """Runs a program on a build of the window kernel; its port to the memory is somebody else's.

    Parameters
    ----------
    table : mapping
        What the kernel exports.
    program : WindowProgram
        In band form, with no more tests than the kernel.
    most_results : int
        Most results of a task beyond what the kernel insists on. A task that needs more pauses.
    """

    def __init__(self, table: Mapping[str, Any], program: WindowProgram, most_results: int) -> None:
        if reason := form_refusal(program):
            raise DeviceError(reason)
        self._table = table
        self._most_results = most_results
        self._packing = WindowPacking(table)
        self._registers: dict[str, int] = {}
        for side, part in (("a", program.a), ("b", program.b)):
            assert isinstance(part, BandProgram)
            built = table["geometry"]["tests"]
            self._registers |= truth_table(part.table, part.tests, built, f"table_{side}")

    def least_room(self, rows: tuple[int, int]) -> int:
        """Results that a task with windows of these sizes needs room for."""
        return self._packing.least_room(rows)

    def facts(self, task: WindowTask) -> dict[str, int]:
        """Sizes of the operator and of the task's windows, as results report them."""
        geometry = self._table["geometry"]
        sizes = {name: geometry[name] for name in ("banks", "depth")}
        return {**sizes, "rows_a": task.rows[0], "rows_b": task.rows[1]}

    def job(self, task: WindowTask) -> WindowJob:
        """A task with at least one tuple."""
        packing = self._packing
        room = packing.words(min(task.room, self.least_room(task.rows) + self._most_results))
        return WindowJob(
            task=task,
            images={"tuples": packing.tuples(task.tuples)},
            result_bytes=(room + 1) * packing.word_bytes,
            arguments={
                "tuple_count": len(task.tuples),
                "history_count": task.history,
                "result_words": room,
                "rows_a": task.rows[0],
                "rows_b": task.rows[1],
                **self._registers,
            },
        )

    def result(self, job: WindowJob, results: np.ndarray) -> WindowResult:
        """What a task came to.

        Parameters
        ----------
        job : WindowJob
        results : ndarray of uint8
            Memory of the results, at least the header and the words that it counts.

        Raises
        ------
        DeviceError
            The task ended with a status that has no result.
        """
        task, size = job.task, self._packing.word_bytes
        header, _ = read_header(self._table, results[:size])
        words = results[size : (header["words"] + 1) * size]
        numbers = self._packing.results(words, header["results"])
        number, done = task.tuples.number, header["tuples"]
        a, b = (number[numbers[side]].astype(np.uint32) for side in (0, 1))
        start, end = task.tuples.met(task.rows)
        counters = {"evaluations": int((end - start)[task.history : done].sum())}
        counters |= {name: header[name] for name in _COUNTERS}
        counters |= {"tuples": max(done - task.history, 0), "history": min(done, task.history)}
        return WindowResult(a, b, done, counters)


class DrivenWindowKernel(WindowKernel):
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
        self._driver = driver
        self._count = count

    def min_room(self, rows: tuple[int, int]) -> int:
        return self._driver.least_room(rows)

    @abstractmethod
    def _execute(self, job: WindowJob) -> np.ndarray:
        """Run a task; the memory of its results."""

    def _run(self, task: WindowTask) -> WindowResult:
        """Check a task, run it, and say what it did in the caller's terms."""
        check_task(task)
        if task.room < self.min_room(task.rows):
            raise DeviceError(
                f"a task needs room for {self.min_room(task.rows)} pairs, not {task.room}"
            )
        facts = self._driver.facts(task)
        if not len(task.tuples):
            none = np.zeros(0, np.uint32)
            return WindowResult(none, none, 0, {"evaluations": 0, **facts})
        job = self._driver.job(task)
        result = self._driver.result(job, self._execute(job))
        self._count(dict(result.counters))
        return WindowResult(result.a, result.b, result.done, {**result.counters, **facts})
