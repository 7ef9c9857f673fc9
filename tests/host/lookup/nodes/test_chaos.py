"""Exactly once, whatever is killed; ``make chaos`` kills more."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.host.lookup.nodes.chaos import NodeChaos


def run(clients: int, nodes: int, kills: int, *, serves: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="pen") as folder:
        chaos = NodeChaos(Path(folder), seed=kills, clients=clients, nodes=nodes, serves=serves)
        chaos.run(kills)
        found = chaos.check()
        assert found["kills"] == kills * (1 + serves)
        assert found["batches"] >= 2 * kills
        assert found["asked"] > 0
        assert chaos.changes > 0


def test_a_few_kills():
    run(clients=1, nodes=2, kills=3, serves=False)


@pytest.mark.slow
def test_sixty_kills():
    run(clients=2, nodes=3, kills=60, serves=True)
