"""A short form of ``make fuzz-wire``."""

from __future__ import annotations

import pytest

from tests.host.devices.remote.fuzz.__main__ import run_part


@pytest.mark.parametrize(
    ("part", "messages"),
    [("dispatch", 2000), ("answers", 2000), ("sockets", 1200), ("false_servers", 60)],
)
def test_random_messages_cost_nobody_anything(part: str, messages: int) -> None:
    """No crash, no hang, no byte of another client, no error that nobody foresaw."""
    counts = run_part(part, 0, messages)
    assert counts["messages"] >= messages
    assert counts["refused"]
    assert counts["carried out"] + counts["believed"]
