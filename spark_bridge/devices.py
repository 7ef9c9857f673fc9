"""The devices that a Python worker process has open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.host.device.base import Device
from penstock.host.device.registry import open_device

#: Options of a device unless the caller gives others. Spark already runs one task per core.
_DEFAULTS: dict[str, dict[str, Any]] = {"cpu": {"threads": 1}}

#: Open devices by name and options; they end with the process, which Spark reuses between tasks.
_open: dict[tuple[str, str], Device] = {}


def shared_device(name: str, options: Mapping[str, Any] | None = None) -> Device:
    """The device of this name and these options, opened once per process.

    Call it in a task through an import inside the task's function: Spark copies the globals that
    a function refers to, and a copied cache is empty.
    """
    wanted = _DEFAULTS.get(name, {}) | dict(options or {})
    key = name, repr(sorted(wanted.items()))
    if key not in _open:
        _open[key] = open_device(name, **wanted)
    return _open[key]
