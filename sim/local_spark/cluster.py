"""A standalone master and its workers, started, watched and stopped together."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Self

from penstock.errors import DeviceError, UsageError
from penstock.host.device.registry import parse_device
from penstock.host.store.own_names import OwnNames
from penstock.spark_bridge.java import ensure_java

from .board import ServedBoard
from .child import Child
from .cluster_record import owned, remove_record, write_record
from .standalone import (
    MOST_WORKERS,
    Settings,
    master_command,
    worker_command,
    worker_host,
)

#: Names of what a cluster writes in each of its folders, Spark's included; in ``work``, within the
#: folder of each worker.
_OWN = {
    "conf": OwnNames(r"log4j2\.properties|master\.conf|worker-[0-9]+\.(?:conf|json)"),
    "logs": OwnNames(r"(?:master|worker-[0-9]+|board|server)\.log"),
    "work": OwnNames("(?:app|driver)-[0-9]{14}-[0-9]{4,}"),
    "scratch": OwnNames("[a-z]+-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
}

#: Seconds until a daemon has come up; so many only for a cold start of Java on a busy machine.
_START_S = 240.0


@dataclass(frozen=True, kw_only=True)
class ClusterConfig:
    """The parts of a cluster.

    Parameters
    ----------
    workers : int
        At most 250.
    cores : int
        Of each worker.
    memory_mib : int
        Memory that each worker gives to executors.
    port, web_port : int
        Of the master and of its page; 0 takes free ones.
    devices : sequence of str
        Devices of the first worker, which are its resource ``fpga``; written as for
        ``spark.penstock.device``.
    board : str or None
        A virtual board, which is one more device.
    board_python : Path or None
        Python of an environment with PYNQ, for the board.

    Raises
    ------
    UsageError, DeviceError
    """

    workers: int = 2
    cores: int = 1
    memory_mib: int = 1024
    port: int = 0
    web_port: int = 0
    devices: Sequence[str] = ()
    board: str | None = None
    board_python: Path | None = None

    def __post_init__(self) -> None:
        for device in self.devices:
            try:
                parse_device(device)
            except DeviceError as error:
                raise DeviceError(f"devices: {error}") from None
        for name, least in (("workers", 1), ("cores", 1), ("memory_mib", 512)):
            if getattr(self, name) < least:
                raise UsageError(f"{name} must be at least {least}, not {getattr(self, name)!r}")
        if self.workers > MOST_WORKERS:
            raise UsageError(f"workers must be at most {MOST_WORKERS}, not {self.workers}")
        if self.board is not None and self.board_python is None:
            raise UsageError(
                "a virtual board needs the Python of an environment with PYNQ; "
                "see docs/hardware/boards.md"
            )


class Cluster:
    """A Spark master and workers on this machine, on loopback; a context manager.

    Parameters
    ----------
    folder : Path
        Settings, logs and scratch space; what another cluster left there is removed, and no other
        file.
    config : ClusterConfig

    Attributes
    ----------
    master : str
        ``spark://HOST:PORT``.
    page : str
        Address of the master's page.
    client : Path
        Value of ``SPARK_CONF_DIR`` for programs that use the cluster; has its address and secret.
    workers : list of Child
    metrics : str or None
        Where the device server of a board counts its evaluations, for Prometheus.

    Raises
    ------
    UsageError
        Another cluster runs in the folder.
    MissingToolError
        There is no Java, no PySpark, or no PYNQ for the board.
    ProcessError
        A process did not come up.
    """

    def __init__(self, folder: Path, config: ClusterConfig | None = None) -> None:
        self.config = config or ClusterConfig()
        self.folder = folder.absolute()
        self._news: SimpleQueue[Child | None] = SimpleQueue()
        self._children: list[Child] = []
        self._stopping = False
        self.metrics: str | None = None
        ensure_java()
        with ExitStack() as cleanup:
            cleanup.enter_context(owned(self.folder))
            cleanup.callback(remove_record, self.folder)
            cleanup.callback(self._stop_all)
            self._start(cleanup)
            self._cleanup = cleanup.pop_all()

    def _start(self, cleanup: ExitStack) -> None:
        config, logs = self.config, self.folder / "logs"
        for name, written in _OWN.items():
            place = self.folder / name
            place.mkdir(exist_ok=True)
            of_workers = [place / f"worker-{number}" for number in range(1, MOST_WORKERS + 1)]
            for folder in of_workers if name == "work" else [place]:
                if folder.is_dir() and not folder.is_symlink():
                    written.clear_trees(folder)
        settings = Settings(self.folder / "conf")
        settings.write()
        self.client = settings.client
        scratch = self.folder / "scratch"
        devices = list(config.devices)
        if config.board is not None and config.board_python is not None:
            served = ServedBoard(config.board, config.board_python, logs, self._ended)
            cleanup.callback(served.stop)
            self._children += served.children
            devices.append(served.device)
            self.metrics = served.metrics
        command = master_command(settings, config.port, config.web_port)
        env = settings.env(scratch)
        master = Child("the master", command, logs / "master.log", env, self._ended)
        self._children.append(master)
        self.master = master.wait_for(r"Starting Spark master at (spark://\S+)", _START_S)[1]
        self.page = master.wait_for(r"MasterWebUI.* at (http://\S+)", _START_S)[1]
        master.wait_for("elected leader", _START_S)
        self.workers: list[Child] = []
        for number in range(1, config.workers + 1):
            worker_devices = devices if number == 1 else []
            conf = settings.write_worker(number, worker_devices)
            command = worker_command(
                number,
                conf,
                self.master,
                self.folder / "work" / f"worker-{number}",
                cores=config.cores,
                memory_mib=config.memory_mib,
            )
            log = logs / f"worker-{number}.log"
            env = settings.env(scratch, worker_host(number))
            child = Child(f"worker {number}", command, log, env, self._ended)
            self._children.append(child)
            self.workers.append(child)
        for child in self.workers:
            child.wait_for("Successfully registered with master", _START_S)
        settings.write_client(self.master)
        processes = {child.name: child.process.pid for child in self._children}
        write_record(self.folder, self.master, processes)

    def _ended(self, child: Child) -> None:
        if not self._stopping:
            self._news.put(child)

    def interrupt(self) -> None:
        """End the wait of :meth:`lost`; safe in a signal handler."""
        self._news.put(None)

    def lost(self, timeout_s: float) -> Child | None:
        """The next process that ends by itself; None after :meth:`interrupt`.

        Raises
        ------
        TimeoutError
        """
        try:
            return self._news.get(timeout=timeout_s)
        except Empty:
            raise TimeoutError(f"no process ended within {timeout_s:g} s") from None

    @property
    def is_usable(self) -> bool:
        """Whether the master and at least one worker run."""
        running = {child.name for child in self._children if child.process.poll() is None}
        return "the master" in running and any(child.name in running for child in self.workers)

    def _stop_all(self) -> None:
        self._stopping = True
        # Workers first: without its master a worker would look for it.
        for child in reversed(self._children):
            child.stop()

    def close(self) -> None:
        """End all processes; logs stay."""
        self._cleanup.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
