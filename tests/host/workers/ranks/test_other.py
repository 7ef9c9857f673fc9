"""How a rank sees that another one is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import pytest

from penstock.host.workers.peers import PeerChannels
from penstock.host.workers.ranks.other import OtherRank


@dataclass
class Ring:
    """What is looked at of a producer."""

    credits: int = 8
    slots: int = 8


@pytest.fixture
def process() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        pidfd = os.pidfd_open(other.pid)
        yield other, pidfd
        os.close(pidfd)


def seen(pid: int, pidfd: int, ring: Ring) -> OtherRank:
    channels = PeerChannels(cast("Any", ring), cast("Any", None))
    return OtherRank(pid, pidfd, channels, _moved=0.0)


def test_a_process_that_ends_is_lost(process) -> None:
    other, pidfd = process
    rank = seen(other.pid, pidfd, Ring())
    assert rank.how_it_is_lost(1.0, 5.0) == ""
    other.kill()
    other.wait()
    assert rank.how_it_is_lost(1.0, 5.0) == f"(process {other.pid}) has ended"


def test_whoever_takes_nothing_for_the_lease_is_lost(process) -> None:
    other, pidfd = process
    ring = Ring()
    rank = seen(other.pid, pidfd, ring)
    assert rank.how_it_is_lost(100.0, 5.0) == "", "there was nothing to take"
    ring.credits = 3
    assert rank.how_it_is_lost(101.0, 5.0) == ""
    ring.credits = 4
    assert rank.how_it_is_lost(106.0, 5.0) == "", "it has taken something"
    assert rank.how_it_is_lost(110.0, 5.0) == ""
    assert "has taken nothing for 6 s, longer than its lease of 5 s" in rank.how_it_is_lost(112, 5)
