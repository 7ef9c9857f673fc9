"""Servers for tests: in a thread of this process, or in a process that can be killed."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from penstock.host.device.base import Device
from penstock.host.devices.cpu import CpuDevice
from penstock.host.devices.remote.server.limits import ServerLimits
from penstock.host.devices.remote.server.owner import DeviceOwner
from penstock.host.devices.remote.server.service import DeviceServer
from penstock.host.wire.address import Address
from tests.penstock.kit.devices import InterpretingCpu

#: A server of the CPU, until it is killed.
SERVER = """
import sys, threading
from tests.host.kit.serving import serving
from tests.penstock.kit.devices import InterpretingCpu

with serving({"cpu": InterpretingCpu(2)}, address=sys.argv[1]):
    print("serving", flush=True)
    threading.Event().wait(600)
"""

#: A server whose tasks hang, which says so.
HANGING_SERVER = """
import sys, threading
from tests.host.kit.faulty import FaultyDevice
from tests.host.kit.serving import serving
from penstock.host.devices.remote.server.limits import ServerLimits
from tests.penstock.kit.devices import InterpretingCpu

device = FaultyDevice(InterpretingCpu(2), lambda: "hang")
with serving({"cpu": device}, ServerLimits(lease_s=3.0), address=sys.argv[1]):
    print("serving", flush=True)
    device.wait_for(lambda: device.held, 60)
    print("running", flush=True)
    threading.Event().wait(60)
"""


@contextmanager
def socket_address() -> Iterator[str]:
    """An address nobody listens on; its path is short, as those of Unix sockets must be."""
    with tempfile.TemporaryDirectory(prefix="pen") as folder:
        yield f"unix://{Path(folder) / 's'}"


@contextmanager
def serving(
    devices: Mapping[str, Device],
    limits: ServerLimits | None = None,
    *,
    address: str | None = None,
    token: str | None = None,
) -> Iterator[DeviceServer]:
    """A server in this process; devices are closed with it."""
    limits = limits or ServerLimits()
    owners = {name: DeviceOwner(device, limits) for name, device in devices.items()}
    with socket_address() as own:
        server = DeviceServer(owners, Address.parsed(address or own), token=token, limits=limits)
        try:
            yield server
        finally:
            assert server.close(), "a stream did not end"


@contextmanager
def serving_cpu(key_widths: Sequence[int] = CpuDevice.key_widths) -> Iterator[str]:
    """Address of a server of the CPU, with those widths of band codes only."""
    device = InterpretingCpu(2)
    device.key_widths = key_widths
    with serving({"cpu": device}) as server:
        yield str(server.address)


def until(condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
    """Wait for what nobody announces, looking often."""
    deadline, pause = time.monotonic() + timeout_s, threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        pause.wait(0.002)
