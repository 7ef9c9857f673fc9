"""The line between a stream and a child, and children that end when their parent does."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import textwrap
import threading

import pyarrow as pa
import pytest

from penstock.errors import ProcessError
from penstock.host.device.fields import MalformedError
from penstock.host.workers.dealt import packed, pieces, unpacked
from penstock.host.workers.local.line import Line
from penstock.host.workers.members import as_bytes, require_equal

TIMEOUT_S = 30.0


def pair() -> tuple[Line, Line]:
    one, other = socket.socketpair()
    return Line(one, "worker 0"), Line(other, "the stream")


def test_messages_arrive_whole_with_their_descriptors() -> None:
    one, other = pair()
    files = [os.memfd_create(f"f{k}") for k in range(600)]  # more than one call carries
    for k, file in enumerate(files):
        os.write(file, str(k).encode())
    # More than a socket buffers: someone must read meanwhile.
    large = {"rows": b"x" * 5_000_000}
    sender = threading.Thread(
        target=lambda: [one.send(large, TIMEOUT_S, files), one.send("next", TIMEOUT_S)]
    )
    sender.start()
    what, received = other.receive(TIMEOUT_S)
    assert what == large
    assert other.receive(TIMEOUT_S) == ("next", [])
    sender.join(TIMEOUT_S)
    assert [os.pread(file, 9, 0) for file in received] == [str(k).encode() for k in range(600)]
    for file in (*files, *received):
        os.close(file)
    one.close()
    with pytest.raises(ProcessError, match="the stream has ended"):
        other.receive(TIMEOUT_S)
    with pytest.raises(ProcessError, match=r"the stream has ended \(Broken pipe\)"):
        other.send("x", TIMEOUT_S)
    other.close()


def test_a_silent_side_is_named() -> None:
    one, other = pair()
    with pytest.raises(ProcessError, match=r"worker 0 said nothing for 0\.01 s"):
        one.receive(0.01)
    one.close()
    other.close()


def test_members_that_differ_are_shown_with_both_values() -> None:
    mine = {"query": "SELECT 1", "pyarrow": "21"}
    require_equal([as_bytes(mine)] * 3)
    with pytest.raises(
        ProcessError, match="pyarrow is 21 on worker 0, but 22 on worker 2; start all of them"
    ):
        require_equal([as_bytes(mine), as_bytes(mine), as_bytes({**mine, "pyarrow": "22"})])
    with pytest.raises(ProcessError, match="zone is not given on worker 0, but UTC on worker 1"):
        require_equal([as_bytes(mine), as_bytes({**mine, "zone": "UTC"})])


def test_batches_come_back_as_they_are_dealt() -> None:
    schema = pa.schema([("t", pa.int64()), ("k", pa.string()), ("b", pa.bool_())])
    columns = [range(100_000), map(str, range(100_000)), [None, True] * 50_000]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
    parts = list(pieces(batch.slice(7)))
    assert len(parts) > 3
    assert pa.Table.from_batches(parts) == pa.Table.from_batches([batch.slice(7)])
    message = bytes(packed(parts[1]))
    assert len(message) < 2 * parts[1].nbytes  # of the slice, not of the whole
    assert unpacked(memoryview(message), schema) == parts[1]
    for damaged in (b"", message[:10], message[:80], message[64:]):
        with pytest.raises(MalformedError, match="a message of rows is no batch"):
            unpacked(damaged, schema)


ORPHANS = """
    import sys, time
    from penstock.host.workers.local.spawning import WorkerProcess
    import penstock.host.workers.local.spawning as spawning
    spawning._PROGRAM = "from tests.host.workers.kit.idle import start; start()"
    children = [WorkerProcess(rank) for rank in range(2)]
    for child in children:
        assert child.line.receive(30) == ("here", []), child.how_it_ended()
    print(*(child.pid for child in children), flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("stopped", [False, True])
def test_children_end_with_their_parent(stopped: bool) -> None:
    command = [sys.executable, "-c", textwrap.dedent(ORPHANS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        watched = [os.pidfd_open(pid) for pid in pids]
        if stopped:
            os.kill(pids[0], signal.SIGSTOP)
        parent.kill()
        for file in watched:
            assert select.select([file], [], [], TIMEOUT_S)[0]
            os.close(file)
