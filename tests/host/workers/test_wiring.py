"""Rings and doorbells of workers: who is connected to whom, and how many open files that takes."""

from __future__ import annotations

import gc
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count

import pyarrow as pa
import pytest

import penstock
from penstock.errors import PenstockError
from penstock.host.channel import Consumer, Doorbell, MessageKind, Producer
from penstock.host.workers.local.spawning import WorkerProcess
from penstock.host.workers.local.wiring import Wiring, child_ends

#: Open files that a process may have on many systems.
USUAL = 1024


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@contextmanager
def at_most(files: int) -> Iterator[None]:
    """Let this process have no descriptor from a number on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def bell() -> Iterator[Doorbell]:
    gc.collect()
    with closing(Doorbell.create()) as bell:
        yield bell


def carry(producer: Producer, consumer: Consumer, text: bytes) -> None:
    producer.send(MessageKind.HELLO, text)
    message = consumer.receive()
    assert message is not None
    assert bytes(message.payload) == text
    consumer.done(message)
    assert not consumer.has_arrived


@pytest.mark.parametrize("size", [1, 2, 3])
def test_each_is_connected_to_each(bell, size) -> None:
    wiring = Wiring(size, bell)
    ends = [child_ends(r, size, [os.dup(f) for f in wiring.files_for(r)]) for r in range(size)]
    wiring.sent()
    for rank, own in enumerate(ends):
        carry(wiring.producers[rank], own.consumer, b"to %d" % rank)
        carry(own.producer, wiring.consumers[rank], b"from %d" % rank)
        assert own.peers[rank] is None
        for other, peer in enumerate(own.peers):
            if peer is not None:
                back = ends[other].peers[rank]
                assert back is not None
                carry(peer.producer, back.consumer, b"%d to %d" % (rank, other))
    wiring.close()
    for own in ends:
        own.bell.close()
        own.ringer.close()
        os.close(own.board)


def used(bell: Doorbell, size: int) -> tuple[int, int]:
    """Open files of the parent before workers have theirs, and what a worker is sent."""
    before = open_files()
    wiring = Wiring(size, bell)
    found = open_files() - before, len(wiring.files_for(0))
    wiring.close()
    del wiring
    assert open_files() == before
    return found


def test_open_files_grow_with_the_number_of_workers(bell) -> None:
    """Not with its square: 32 workers have room among the usual number, with two more for each."""
    one, two, three = (used(bell, size) for size in (1, 2, 3))
    for first, second, third in zip(one, two, three, strict=True):
        assert third - second == second - first
        assert first + 31 * (second - first + 2) < USUAL / 2


@pytest.mark.slow
def test_32_workers_start_with_the_usual_number_of_open_files() -> None:
    code = (
        "import resource, pyarrow as pa, penstock\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({USUAL},) * 2)\n"
        "rows = pa.table({'t': range(100), 'k': [n % 7 for n in range(100)]})\n"
        "query = 'SELECT k, count(*) AS n FROM a GROUP BY k'\n"
        "found = penstock.sql(query, {'a': rows}, workers=32)\n"
        "assert sum(found['n'].to_pylist()) == 100\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


@pytest.mark.parametrize(
    "what", ["wiring", "process", pytest.param("stream", marks=pytest.mark.slow)]
)
def test_a_start_without_enough_open_files_leaves_none(bell, what, tmp_path) -> None:
    def stream() -> None:
        query = "SELECT k, count(*) AS n FROM a GROUP BY window(t, 9), k"
        schemas = {"a": pa.schema({"t": pa.int64(), "k": pa.int64()})}
        at = {"a": "t"}
        penstock.stream(query, schemas, time=at, workers=1, checkpoint=tmp_path / "c").close()

    if what == "stream":
        stream()  # everything is loaded
    starts: dict[str, Callable[[], object]] = {
        "wiring": lambda: Wiring(2, bell).close(),
        "process": lambda: WorkerProcess(0).end(),
        "stream": stream,
    }
    before, said = open_files(), []
    for limit in count(3):
        try:
            with at_most(limit):
                starts[what]()
            break
        except PenstockError as error:
            said.append(str(error))
        if open_files() != before:
            gc.collect()  # what an error's traceback has mapped
        assert open_files() == before
    assert len(said) >= 3
    assert [one for one in said if "ulimit -n" not in one] == []
