"""Window programs on the window kernels of boards."""

from __future__ import annotations

from concurrent.futures import Future

import numpy as np

from penstock.host.device.board.kernel import MOST_RESULT_WORDS, Owner
from penstock.host.device.board.places import Lease, Places
from penstock.host.device.window_join import WindowResult, WindowTask
from penstock.host.driver.window_driver import DrivenWindowKernel, WindowDriver, WindowJob
from penstock.program import WindowProgram


class BoardWindowKernel(DrivenWindowKernel):
    """A window program on the kernels of an overlay.

    Parameters
    ----------
    device : Owner
    program : WindowProgram
        One that the package runs.
    places : Places
        Its kernels.
    """

    def __init__(self, device: Owner, program: WindowProgram, places: Places) -> None:
        table = places.package.table
        most = MOST_RESULT_WORDS * table["geometry"]["results_per_word"]
        driver = WindowDriver(table, program, most)
        super().__init__(driver, program, device.count)
        self._device = device
        self._lease = Lease(places)

    def submit(self, task: WindowTask) -> Future[WindowResult]:
        return self._device.start(self._run, task)

    def close(self) -> None:
        """Wait for the kernel's tasks."""
        self._lease.close()
        self._device.closed(self)

    def _execute(self, job: WindowJob) -> np.ndarray:
        return self._lease.run(job)
