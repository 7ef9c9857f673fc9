"""A server of one device on which tests decide what becomes of tasks, on each transport."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.host.devices.remote.client.device import TRANSPORTS
from penstock.host.devices.remote.server.service import DeviceServer
from tests.host.kit.faulty import FaultyDevice
from tests.host.kit.serving import serving
from tests.penstock.kit.devices import InterpretingCpu


@pytest.fixture(params=[name for name in TRANSPORTS if name != "auto"])
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What clients that name none take."""
    monkeypatch.setitem(TRANSPORTS, "auto", TRANSPORTS[request.param])
    return request.param


@pytest.fixture
def faulty() -> Iterator[FaultyDevice]:
    """The device."""
    with InterpretingCpu(2) as cpu, FaultyDevice(cpu) as device:
        yield device


@pytest.fixture
def server(faulty: FaultyDevice) -> Iterator[DeviceServer]:
    """The server."""
    with serving({"cpu": faulty}) as opened:
        yield opened
