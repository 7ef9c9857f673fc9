"""Channels between processes that have no common parent."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from penstock.errors import ProcessError
from penstock.host.channel import Doorbell, MessageKind, ProcessGoneError
from penstock.host.channel.links import ShmLink

TIMEOUT_S = 30.0

#: A process that connects to what it is offered, and sends back what it gets.
_ECHO = """
import sys
from penstock.host.channel import Doorbell
from penstock.host.channel.links import ShmLink
bell = Doorbell.create(is_offered=True)
link = ShmLink(bell, "the test")
sys.stdout.buffer.write(link.offer() + b"\\n")
sys.stdout.flush()
producer, consumer = link.connect(sys.stdin.buffer.readline())
for _ in range(20):
    assert bell.wait(lambda: consumer.has_arrived, 30.0)
    message = consumer.receive()
    producer.send(message.kind, bytes(message.payload))
    consumer.done(message)
sys.stdin.buffer.readline()
"""


def test_two_processes_connect_by_what_they_offer() -> None:
    bell = Doorbell.create(is_offered=True)
    link = ShmLink(bell, "the other")
    with subprocess.Popen(
        [sys.executable, "-c", _ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdin.write(link.offer() + b"\n")
        other.stdin.flush()
        producer, consumer = link.connect(other.stdout.readline())
        for number in range(20):
            assert producer.send(MessageKind.CONTROL, b"%d" % number)
            assert bell.wait(lambda: consumer.has_arrived, TIMEOUT_S)
            message = consumer.receive()
            assert message is not None
            assert bytes(message.payload) == b"%d" % number
            consumer.done(message)
        link.connected()
        assert not link.has_ended
        other.stdin.write(b"\n")
    with pytest.raises(ProcessGoneError, match="the other has ended"):
        bell.wait(lambda: False, TIMEOUT_S)
    assert link.has_ended
    link.unwatch()
    assert not bell.wait(lambda: False, 0.0)
    link.close()
    bell.close()


@pytest.fixture
def offered():
    bell = Doorbell.create(is_offered=True)
    link = ShmLink(bell, "the other")
    yield link, json.loads(link.offer())
    link.close()
    bell.close()


def test_a_process_that_has_ended_is_not_reached(offered) -> None:
    link, about = offered
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    about["process"] = gone.pid
    with pytest.raises(ProcessError, match=f"process {gone.pid} cannot be reached"):
        link.connect(json.dumps(about).encode())


def connect_and_close(offered: bytes) -> None:
    bell = Doorbell.create(is_offered=True)
    link = ShmLink(bell, "the other")
    link.connect(offered)
    link.connected()
    link.close()
    bell.close()


def test_nothing_stays_open(offered) -> None:
    _, about = offered
    before = len(os.listdir("/proc/self/fd"))
    connect_and_close(json.dumps(about).encode())
    assert len(os.listdir("/proc/self/fd")) == before
