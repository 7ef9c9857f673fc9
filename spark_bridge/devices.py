"""Chooses the device of a task; a Python worker process keeps devices open between its tasks."""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from tempfile import gettempdir
from typing import Any
from urllib.parse import urlencode

from penstock.errors import DeviceError, PenstockError, UsageError
from penstock.host.device.base import Device
from penstock.host.device.registry import open_device, parse_device
from penstock.private_folder import private_folder

from .conf import Conf
from .spark_task import task_addresses

#: Environment variable that names the device of an executor.
VARIABLE = "PENSTOCK_DEVICE"

#: Default options of devices. The CPU device has one thread: Spark runs a task per core.
_DEFAULTS: dict[str, dict[str, Any]] = {"cpu": {"threads": 1}}

#: Origin of the device that is used if none is named.
NOTHING = "default"

#: Devices that several processes may have open at a time. They stay open between tasks.
_SHARED = frozenset({"cpu", "remote"})

#: Devices that this process has open, by name and options. Spark reuses the process.
_open: dict[tuple[str, str], Device] = {}


@contextmanager
def slot(device: str, slots: int, timeout_s: float) -> Iterator[None]:
    """Hold one of a device's slots.

    When a process ends, however it does, the system releases its lock.

    Parameters
    ----------
    device : str
        Any name on which the processes agree.
    slots : int
        How many processes may use the device at a time.
    timeout_s : float

    Raises
    ------
    DeviceError
        No slot became free in time.
    FileError
        The folder of the locks is not this user's alone.
    """
    names = [f"{sha256(device.encode()).hexdigest()[:16]}.{number}" for number in range(slots)]
    file = _locked_now(names)
    if file is None:
        file = _locked_in_time(names, timeout_s)
    if file is None:
        raise DeviceError(
            f"device {device} was busy for {timeout_s:g} s: {slots} other tasks of this host use "
            "it; raise spark.penstock.device.waitSeconds, let fewer tasks run at a time "
            "(spark.task.cpus, resources), or share it through `penstock serve`"
        )
    try:
        yield
    finally:
        os.close(file)


def _opened(name: str) -> int:
    # In the temporary folder: several hosts may share the user's cache folder.
    with private_folder(Path(gettempdir()) / f"penstock-slots-{os.geteuid()}") as folder:
        return folder.open(name, os.O_RDWR | os.O_CREAT)


def _locked_now(names: Sequence[str]) -> int | None:
    """A free slot, locked, as an open file; None if there is none."""
    for name in names:
        file = _opened(name)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
        else:
            return file
    return None


def _locked_in_time(names: Sequence[str], timeout_s: float) -> int | None:
    """The first slot that becomes free, locked. Threads wait: a lock has no time-out."""
    mutex = threading.Lock()
    ready = threading.Event()
    locked: list[int] = []
    is_over = False

    def wait(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX)
        with mutex:
            if is_over or locked:
                os.close(file)
                return
            locked.append(file)
        ready.set()

    for name in names:
        file = _opened(name)
        threading.Thread(target=wait, args=(file,), name="penstock-slot", daemon=True).start()
    ready.wait(timeout_s)
    with mutex:
        is_over = True
        return locked[0] if locked else None


def shared_device(name: str, options: Mapping[str, Any] | None = None) -> Device:
    """The device of this name and these options, opened once per process."""
    wanted = _DEFAULTS.get(name, {}) | dict(options or {})
    key = name, repr(sorted(wanted.items()))
    if key not in _open:
        _open[key] = open_device(name, **wanted)
    return _open[key]


def stays_open(device: Device) -> bool:
    """Whether a device is open for later tasks of this process, too."""
    return any(device is one for one in _open.values())


@dataclass(frozen=True)
class DeviceSpec:
    """A device by name and options.

    Parameters
    ----------
    name : str
    options : mapping
    origin : str
        What named it, for messages.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    origin: str = NOTHING

    @staticmethod
    def parse(text: str, origin: str) -> DeviceSpec:
        """From ``name`` or ``name?option=value&option=value``.

        Raises
        ------
        DeviceError
            There is no such device.
        """
        try:
            name, options = parse_device(text)
        except DeviceError as error:
            raise DeviceError(f"{origin}: {error}") from None
        return DeviceSpec(name, options, origin)

    def __str__(self) -> str:
        return self.name + (f"?{urlencode(self.options, safe=':/')}" if self.options else "")


@dataclass(frozen=True)
class DeviceChoice:
    """Rule by which a task finds its device.

    The first of these that names one counts: the call's argument, the task's Spark resource,
    ``spark.penstock.device``, the executor's environment. Otherwise it is the CPU device.

    Parameters
    ----------
    argument : DeviceSpec or None
    conf : Conf
    """

    argument: DeviceSpec | None
    conf: Conf

    @staticmethod
    def read(device: str | None, options: Mapping[str, Any] | None, conf: Conf) -> DeviceChoice:
        """Read the arguments of a call.

        Raises
        ------
        UsageError, DeviceError
        """
        if device is None:
            if options:
                return DeviceChoice(DeviceSpec("cpu", dict(options), "device_options="), conf)
            if conf.device:
                DeviceSpec.parse(conf.device, "spark.penstock.device")  # raises
            return DeviceChoice(None, conf)
        if not isinstance(device, str):
            raise UsageError(
                f"device must be a name, not {device!r}: each Spark worker opens its own; give "
                "its arguments as device_options"
            )
        spec = DeviceSpec.parse(device, "device=")
        merged = {**spec.options, **(options or {})}
        return DeviceChoice(DeviceSpec(spec.name, merged, "device="), conf)

    def resolve(self, addresses: Mapping[str, list[str]] | None = None) -> DeviceSpec:
        """The device of a task, or, without addresses, the one that the driver expects.

        Parameters
        ----------
        addresses : mapping of resource to addresses, optional
            Of the task.
        """
        if self.argument is not None:
            return self.argument
        named = (addresses or {}).get(self.conf.resource)
        if named:
            return DeviceSpec.parse(named[0], f"the task's resource {self.conf.resource}")
        if self.conf.device:
            return DeviceSpec.parse(self.conf.device, "spark.penstock.device")
        if os.environ.get(VARIABLE):
            return DeviceSpec.parse(os.environ[VARIABLE], VARIABLE)
        return DeviceSpec("cpu")

    def slots(self, spec: DeviceSpec) -> int:
        """How many tasks of one host may use a device at a time; 0 for any number."""
        return self.conf.device_tasks or (0 if spec.name in _SHARED else 1)

    @contextmanager
    def open(self) -> Iterator[Device]:
        """Wait for the task's turn on its device, and open that.

        Raises
        ------
        DeviceError, UsageError, MissingToolError
            It cannot be opened, or no turn came in time.
        """
        spec = self.resolve(task_addresses())
        slots = self.slots(spec)
        if not slots:
            yield self._or_cpu(spec, shared=True)
            return
        with slot(str(spec), slots, self.conf.wait_seconds):
            # Closed after use, so that another process can open it.
            device = self._or_cpu(spec, shared=spec.name in _SHARED)
            try:
                yield device
            finally:
                if spec.name not in _SHARED and device is not shared_device("cpu"):
                    device.close()

    def instead_of(self, device: Device, reason: str) -> Device | None:
        """The CPU device, for a task that a device cannot run; None without fallback."""
        return self._cpu(device.name, device.name, reason)

    def _or_cpu(self, spec: DeviceSpec, *, shared: bool) -> Device:
        try:
            if shared:
                return shared_device(spec.name, spec.options)
            return open_device(spec.name, **spec.options)
        except PenstockError as error:
            cpu = self._cpu(spec.name, str(spec), str(error))
            if cpu is None:
                raise
            return cpu

    def _cpu(self, name: str, shown: str, reason: str) -> Device | None:
        """The CPU device instead of another, which the executor's log then says."""
        if self.conf.fallback != "cpu" or name == "cpu":
            return None
        sys.stderr.write(f"penstock: device cpu instead of {shown}: {reason}\n")
        sys.stderr.flush()
        return shared_device("cpu")
