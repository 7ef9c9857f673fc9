"""A device server under supervision."""

from __future__ import annotations

import sys
import tempfile
import threading
from pathlib import Path

from penstock.sim.local_spark.child import Child
from tests.spark_bridge.kit.apps import ROOT

#: Seconds that it may take to come up, on a busy machine.
_START_S = 900


class Supervised:
    """A device server that is started again whenever it ends.

    Parameters
    ----------
    folder : Path
        Of its logs and socket.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.starts = folder, 0
        self._lock = threading.Lock()
        self._closed = False
        self._sockets = tempfile.TemporaryDirectory(prefix="pen")
        self.address = f"unix://{self._sockets.name}/s"
        self._start()
        self.child.wait_for("^serving", _START_S)

    def _start(self, _ended: Child | None = None) -> None:
        with self._lock:
            if self._closed:
                return
            self.starts += 1
            command = ["-c", "from penstock.cli.main import run; run()", "serve", "--threads", "2"]
            self.child = Child(
                "the device server",
                [sys.executable, *command, "--listen", self.address],
                self.folder / f"server{self.starts}.log",
                {"PYTHONPATH": str(ROOT)},
                self._start,
            )

    def close(self) -> None:
        """End it for good."""
        with self._lock:
            self._closed = True
        self.child.stop()
        self._sockets.cleanup()
