"""Which device a task uses, and the devices that a Python worker process has open."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from penstock.errors import DeviceError, PenstockError, UsageError
from penstock.host.device.base import Device
from penstock.host.device.registry import open_device, parse_device

from .conf import Conf
from .slots import slot
from .task import task_addresses

#: Environment variable that names the device of an executor.
VARIABLE = "PENSTOCK_DEVICE"

#: Options of a device unless the caller gives others. Spark already runs one task per core.
_DEFAULTS: dict[str, dict[str, Any]] = {"cpu": {"threads": 1}}

#: Origin of the device that is used where none is named.
NOTHING = "default"

#: Devices that any number of processes may open. They stay open between tasks.
_SHARED = frozenset({"cpu", "remote"})

#: Open devices by name and options; they end with the process, which Spark reuses between tasks.
_open: dict[tuple[str, str], Device] = {}


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
    """A device by name and options, and who chose it.

    Parameters
    ----------
    name : str
    options : mapping
    origin : str
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    origin: str = NOTHING

    @staticmethod
    def parsed(text: str, origin: str) -> DeviceSpec:
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
    """The device of a query's tasks, as far as the driver knows it.

    In a task, the first of these counts: the call's argument, an address of the task's Spark
    resource, ``spark.penstock.device``, the environment of the executor, and the CPU device.

    Parameters
    ----------
    argument : DeviceSpec or None
    conf : Conf
    """

    argument: DeviceSpec | None
    conf: Conf

    @staticmethod
    def of(device: str | None, options: Mapping[str, Any] | None, conf: Conf) -> DeviceChoice:
        """From the arguments of a call.

        Raises
        ------
        UsageError, DeviceError
        """
        if device is None:
            if options:
                return DeviceChoice(DeviceSpec("cpu", dict(options), "device_options="), conf)
            if conf.device:
                DeviceSpec.parsed(conf.device, "spark.penstock.device")  # raises
            return DeviceChoice(None, conf)
        if not isinstance(device, str):
            raise UsageError(
                f"device must be a name, not {device!r}: each Spark worker opens its own; give "
                "its arguments as device_options"
            )
        spec = DeviceSpec.parsed(device, "device=")
        merged = {**spec.options, **(options or {})}
        return DeviceChoice(DeviceSpec(spec.name, merged, "device="), conf)

    def resolved(self, addresses: Mapping[str, list[str]] | None = None) -> DeviceSpec:
        """The device of a task, or, without addresses, the one that the driver expects.

        Parameters
        ----------
        addresses : mapping of resource to addresses, optional
            Of the task.
        """
        if self.argument is not None:
            return self.argument
        own = (addresses or {}).get(self.conf.resource)
        if own:
            return DeviceSpec.parsed(own[0], f"the task's resource {self.conf.resource}")
        if self.conf.device:
            return DeviceSpec.parsed(self.conf.device, "spark.penstock.device")
        if os.environ.get(VARIABLE):
            return DeviceSpec.parsed(os.environ[VARIABLE], VARIABLE)
        return DeviceSpec("cpu")

    def slots(self, spec: DeviceSpec) -> int:
        """Tasks of one host that may use a device at a time; 0 for any number."""
        return self.conf.device_tasks or (0 if spec.name in _SHARED else 1)

    @contextmanager
    def opened(self) -> Iterator[Device]:
        """The device of the task that calls, while it has its turn.

        Raises
        ------
        DeviceError, UsageError, MissingToolError
            It cannot be opened, or no turn came in time.
        """
        spec = self.resolved(task_addresses())
        slots = self.slots(spec)
        if not slots:
            yield self._or_cpu(spec, shared=True)
            return
        with slot(str(spec), slots, self.conf.wait_seconds):
            # Another process may be next: an open device would keep it out.
            device = self._or_cpu(spec, shared=spec.name in _SHARED)
            try:
                yield device
            finally:
                if spec.name not in _SHARED and device is not shared_device("cpu"):
                    device.close()

    def instead_of(self, device: Device, reason: str) -> Device | None:
        """The CPU device, for a task that a device cannot run; None if it is not to be used."""
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
        """The CPU device in place of another, with a word in the executor's log."""
        if self.conf.fallback != "cpu" or name == "cpu":
            return None
        sys.stderr.write(f"penstock: device cpu instead of {shown}: {reason}\n")
        sys.stderr.flush()
        return shared_device("cpu")
