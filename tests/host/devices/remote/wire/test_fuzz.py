"""A short form of ``make fuzz-wire``."""

from __future__ import annotations

import pytest

from tests.host.devices.remote.fuzz.__main__ import run_part
from tests.kit.effort import effort


@pytest.mark.parametrize(
    ("part", "messages"),
    [
        ("dispatch", effort(2000, 700)),
        ("answers", effort(2000, 700)),
        pytest.param("sockets", 1200, marks=pytest.mark.slow),
        ("false_servers", effort(60, 5)),
    ],
    ids=["dispatch", "answers", "sockets", "false_servers"],
)
def test_random_messages_cost_nobody_anything(part: str, messages: int) -> None:
    """No crash, no hang, no byte of another client, no error that nobody foresaw."""
    counts = run_part(part, 0, messages)
    assert counts["messages"] >= messages
    assert counts["refused"]
    assert counts["carried out"] + counts["believed"]
