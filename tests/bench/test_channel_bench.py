"""What the benchmark of channels carries arrives, by every contender, and is counted."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from bench.channel import bare, latency, mpi, networks, ours, puts
from bench.channel.curves import LABELS, Curve
from bench.channel.far import Far
from bench.channel.peers import PEERS, Iceoryx, needs
from bench.channel.work import Job, Memcpy, Source, Toucher
from penstock.errors import MissingToolError

JOB = Job(4096 - 32, 100)


@pytest.fixture(scope="module")
def source() -> Source:
    return Source(1 << 18)


def test_each_line_of_each_message_counts(source: Source):
    toucher = Toucher(JOB)
    expected = 0
    for message in source.messages(JOB):
        expected += int(np.frombuffer(message, np.uint64)[::8].sum(dtype=np.uint64))
        toucher.take(message)
    assert toucher.left == 0
    done = toucher.done()
    assert done.total == source.total(JOB) == expected % (1 << 64)
    assert (np.diff(done.times_ns) >= 0).all()


def test_runs_are_the_messages(source: Source):
    runs = b"".join(source.runs(JOB))
    assert runs == b"".join(source.messages(JOB))
    assert len(runs) == JOB.nbytes


def test_memcpy_takes_time(source: Source):
    assert Memcpy(source).seconds(JOB) > 0


def test_a_peer_that_is_not_installed_says_how_to_get_it():
    with pytest.raises(MissingToolError, match=r"pip install 'penstock\[bench\]'"):
        needs("no_such_package")


#: Not iceoryx2, whose publisher waits for ever in native code if its subscriber has ended.
OTHERS = [
    pytest.param(make, marks=pytest.mark.slow)
    for make in (bare.Near, networks.Stream, *PEERS.values())
    if make is not Iceoryx
]


def carry(far, near, source: Source) -> None:
    try:
        for job in (JOB, Job(65536 - 32, 20, 8)):
            seconds, done = far.transfer(near, job, source)
            assert done.total == source.total(job)
            assert 0 < seconds < 60
    finally:
        far.close()


@pytest.mark.parametrize("make", [ours.Near, *OTHERS], ids=lambda make: make.name)
def test_all_bytes_arrive(make, source: Source):
    package = getattr(make, "package", "penstock")
    pytest.importorskip(package, reason="needs pip install 'penstock[bench]'")
    near = make()
    carry(Far(near.module, near.consume), near, source)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*networks.TRANSPORTS, *puts.TRANSPORTS])
def test_all_bytes_arrive_through_ucx(name: str, source: Source):
    pytest.importorskip("libucx", reason="needs pip install 'penstock[rdma]'")
    near = puts.Near(name) if name in puts.TRANSPORTS else networks.Near(name)
    carry(Far(near.module, near.consume), near, source)


@pytest.mark.slow
@pytest.mark.parametrize("name", mpi.TRANSPORTS)
def test_all_bytes_arrive_by_puts_of_mpi(name: str, source: Source):
    try:
        near = mpi.Near(name, len(source.memory))
    except MissingToolError as error:
        pytest.skip(str(error))
    carry(near, near, source)


def test_echoes_come_back():
    near = ours.Near()
    with ExitStack() as stack:
        far = Far(latency.__name__, "echo")
        stack.callback(far.close)
        seconds = latency.there_and_back(near, far, latency.Echo(64, 50, 0.0))
    assert len(seconds) == 45
    assert (seconds > 0).all()


def test_pictures_are_drawn(tmp_path: Path):
    pytest.importorskip("matplotlib", reason="needs pip install 'penstock[demo]'")
    from bench.channel.pictures import draw

    curve = Curve({4096: 1e9, 1 << 20: 2e9}, {4096: 1e-5, 1 << 20: 1e-3}, {1: 1e9, 8: 2e9})
    paths = draw(dict.fromkeys(LABELS.values(), curve), tmp_path)
    assert len(paths) == 6
    assert all(path.stat().st_size > 1000 for path in paths)
