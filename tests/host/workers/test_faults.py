"""Killed, stopped and orphaned processes of a stream; no row is lost, or the error says what is."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bench.host.rss import resident_bytes
from penstock import Checkpoint
from penstock.errors import FileError, LostError, OverloadError, ProcessError, UsageError
from penstock.host.workers.job import Job
from penstock.host.workers.points import WORKER_POINTS
from tests.host.workers.kit.app import sunk
from tests.host.workers.kit.chaos import ROOT, Round, targets_of
from tests.host.workers.kit.groups import (
    SCHEMA,
    batches,
    comparable,
    listed,
    numbered,
    opened,
    wanted,
)
from tests.kit.effort import effort

TIMEOUT_S = 60.0


def without_first(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows without the value of min_by, which is the oracle's own where several are least."""
    return sorted((row[:-1] for row in rows), key=repr)


def distinct(count: int, rows: int) -> list[pa.RecordBatch]:
    """Rows whose keys all differ."""
    made = []
    for place in range(count):
        keys = np.arange(place * rows, (place + 1) * rows)
        columns = [keys, [None] * rows, np.full(rows, 5 * place), np.ones(rows), np.ones(rows)]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
        made.append(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
    return made


_SHORT = ("written",)


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(point, marks=[] if point in _SHORT else [pytest.mark.slow])
        for point in WORKER_POINTS
        if point != "restore"
    ],
)
def test_a_killed_worker_costs_no_row(point: str, tmp_path: Path, monkeypatch, caplog) -> None:
    caplog.set_level("INFO", "penstock")
    # More than its channels hold goes to the other worker: some of it waits for credits.
    given = distinct(12, 8000) if point == "between slots" else batches(3, 12)
    # How often epochs end by themselves depends on the machine.
    count = 1 if point in ("seal", "between slots", "written") else 3
    monkeypatch.setenv("PENSTOCK_KILL", f"{point}:1:{count}")
    found: list[tuple[int, pa.Table]] = []
    with opened(2, checkpoint=Checkpoint(tmp_path, every_s=0.1)) as stream:
        for place, batch in enumerate(given):
            stream.push("a", batch)
            if place in (4, 8):
                stream.flush()
            found += numbered(stream)
        assert stream.failures() == {"workers": 1}
        assert caplog.text.count("all workers start again from the last record") == 1
        last = stream.close()
        found += [] if last is None else [last]
        found += numbered(stream)
    numbers = [number for number, _ in found]
    assert numbers == sorted(set(numbers))
    assert len(numbers) >= 2
    table = pa.concat_tables([rows for _, rows in found])
    assert without_first(comparable(table)) == without_first(wanted(given))


@pytest.mark.slow
@pytest.mark.parametrize("kills", [3, 30])
def test_chaos(kills: int, tmp_path: Path) -> None:
    one = Round(tmp_path, seed=1)
    one.run(["record:parent:1", "random", "restore:0:1", *targets_of(kills, Random(2))][:kills])
    rows, lost, doubled = one.outcome()
    assert (rows > 1000, lost, doubled) == (True, 0, 0)
    assert len(one.killed) >= 2


@pytest.mark.slow
def test_a_checkpoint_goes_on_with_another_number_of_workers(tmp_path: Path) -> None:
    given = batches(9, 18)
    found: dict[int, pa.Table] = {}
    with opened(2, checkpoint=tmp_path / "c", ordered=True) as stream:
        stream.register("a", "x")
        for batch in given[:8]:
            stream.push("a", batch, feed="x")
        stream.flush()
        first = stream.poll()
        stream.push("a", given[8], feed="x")
        stream.stop()  # what was polled last is not acknowledged
    with pytest.raises(FileError, match="which computes something else than"):
        opened(2, checkpoint=tmp_path / "c")  # with another order, rows carry other columns
    flow = {"push_timeout_s": 0.3}
    with opened(3, checkpoint=tmp_path / "c", ordered=True, flow=flow) as stream:
        assert (stream.position("a", "x"), stream.pushed("a")) == (9 * 40, 9)
        again = stream.poll()
        assert (again.number, listed(again.rows)) == (first.number, listed(first.rows))
        # Nobody sends for the recorded feed, and no group is complete without it.
        with pytest.raises(UsageError, match=r"has feed 'x' of a, which nobody has registered"):
            wait_long(stream)
        stream.register("a", "x")
        with pytest.raises(UsageError, match="feed 'x' of a is registered already"):
            stream.register("a", "x")
        for batch in given[9:]:
            stream.push("a", batch, feed="x")
        found = {again.number: again.rows, **dict(numbered(stream))}
        last = stream.close()
        found.update([] if last is None else [last])
        found.update(numbered(stream))
    assert list(found) == sorted(found)
    table = pa.concat_tables(found.values())
    assert table["w"].to_pylist() == sorted(table["w"].to_pylist())
    assert without_first(comparable(table)) == without_first(wanted(given))


def test_batches_that_no_record_covers_force_a_checkpoint(tmp_path: Path) -> None:
    query = "SELECT k % 7 AS g, t - t % 10 AS w, count(*) AS n FROM a GROUP BY k % 7, t - t % 10"
    flow = {"memory_bytes": 4 << 20, "push_timeout_s": TIMEOUT_S}
    checkpoint = Checkpoint(tmp_path, every_s=600)
    given = distinct(60, 8000)
    with opened(2, checkpoint=checkpoint, flow=flow, query=query) as stream:
        for batch in given:
            stream.push("a", batch)
        assert list(tmp_path.glob("record-*"))
        assert stream.budget.highest <= 4 << 20
        rows = [rows for _, rows in numbered(stream)]
        last = stream.close()
        rows += [] if last is None else [last.rows]
        rows += [rows for _, rows in numbered(stream)]
    assert sum(pa.concat_tables(rows)["n"].to_pylist()) == 60 * 8000


@pytest.mark.slow
def test_commits_that_nobody_polls_hold_the_caller_back(tmp_path: Path) -> None:
    flow = {"memory_bytes": 4 << 20, "push_timeout_s": 1.0}
    given = distinct(200, 8000)
    stream = opened(2, checkpoint=Checkpoint(tmp_path, every_s=0.1), flow=flow)

    def push_all() -> None:
        for batch in given:
            stream.push("a", batch)

    with pytest.raises(OverloadError, match="poll the results"):
        push_all()
    rows = [rows for _, rows in numbered(stream)]
    last = stream.close()
    rows += [] if last is None else [last.rows]
    rows += [rows for _, rows in numbered(stream)]
    assert sum(pa.concat_tables(rows)["n"].to_pylist()) == 8000 * stream.pushed("a")


def test_an_interrupted_poll_gives_its_number_again(tmp_path: Path, monkeypatch) -> None:
    with opened(1, checkpoint=tmp_path) as stream:
        for batch in batches(1, 6):
            stream.push("a", batch)
        stream.flush()
        call = stream._thread.call

        def interrupted(do: Any) -> Any:
            call(do)
            raise KeyboardInterrupt

        monkeypatch.setattr(stream._thread, "call", interrupted)
        with pytest.raises(KeyboardInterrupt):
            stream.poll()
        monkeypatch.undo()
        (only,) = numbered(stream)
        assert only[0] == 1
        assert only[1].num_rows > 0


def test_members_that_differ_do_not_begin(monkeypatch) -> None:
    facts = Job.facts
    monkeypatch.setattr(Job, "facts", lambda job, query: {**facts(job, query), "numpy": "1.0"})
    with pytest.raises(ProcessError, match=r"numpy is 1\.0 on the stream's process, but \d"):
        opened(2)


@pytest.mark.slow
def test_release_now_gives_rows_at_once_and_perhaps_again(tmp_path: Path) -> None:
    given = batches(4, 12)
    found: Counter[Any] = Counter()
    stream = opened(2, checkpoint=Checkpoint(tmp_path, every_s=600), release="now")
    for batch in given[:8]:
        stream.push("a", batch)
    assert stream.wait(1, TIMEOUT_S)  # no record covers them
    assert not list(tmp_path.glob("record-*"))
    found.update(comparable(stream.poll()))
    os.kill(stream.processes[0], signal.SIGKILL)
    for batch in given[8:]:
        stream.push("a", batch)
    found.update(comparable(stream.close()))
    while (piece := stream.poll()).num_rows:
        found.update(comparable(piece))
    assert stream.failures() == {"workers": 1}
    assert without_first(list(found)) == without_first(wanted(given))
    assert max(found.values()) == 2  # what was given before the kill
    with pytest.raises(UsageError, match="in no order; leave ordered out"):
        opened(2, checkpoint=tmp_path, release="now", ordered=True)


def test_without_a_checkpoint_a_lost_worker_ends_the_stream() -> None:
    stream = opened(2)
    stream.push("a", batches(0, 1)[0])
    os.kill(stream.processes[1], signal.SIGKILL)
    with pytest.raises(LostError, match=r"worker 1 \(process \d+\) was killed by SIGKILL; .*batch"):
        stream.flush()
    with pytest.raises(LostError, match="give checkpoint=FOLDER"):
        stream.push("a", batches(0, 1)[0])
    with pytest.raises(LostError):
        stream.close()


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 5.0])
def test_a_stopped_worker_holds_the_caller_back_and_is_lost_beyond_its_lease(
    seconds: float,
) -> None:
    lease_s = 3.0 + 2 * seconds
    flow = {"memory_bytes": 4 << 20, "push_timeout_s": 0.2, "latency_s": 0.01}
    stream = opened(2, flow=flow, lease_s=lease_s)
    given = batches(8, 300, rows=2000, keys=50)
    os.kill(stream.processes[0], signal.SIGSTOP)
    stopped = time.monotonic()

    def push_all() -> None:
        for batch in given[stream.pushed("a") :]:
            stream.push("a", batch)

    with pytest.raises(OverloadError, match="waiting"):
        push_all()
    taken, memory = stream.pushed("a"), resident_bytes()
    assert 0 < taken < 300
    while time.monotonic() < stopped + seconds:  # each push waits for its timeout
        with pytest.raises(OverloadError, match="waiting"):
            push_all()
    assert stream.pushed("a") == taken
    assert stream.budget.highest < 4 << 20
    assert resident_bytes() < memory + (4 << 20)
    os.kill(stream.processes[0], signal.SIGCONT)
    assert stream.wait_for(lambda: flushed(stream), TIMEOUT_S)
    os.kill(stream.processes[0], signal.SIGSTOP)
    stream.push("a", given[taken])
    with pytest.raises(LostError, match=rf"its lease of {lease_s:g} s: it is stopped, or hangs"):
        stream.wait_for(lambda: False, TIMEOUT_S)


def wait_long(stream: Any) -> None:
    """Wait for rows that do not come."""
    while not stream.wait(10**9, 0.05):
        pass


def flushed(stream: Any) -> bool:
    """Whether all rows are grouped in time, while results are polled."""
    stream.poll()
    try:
        stream.flush()
    except OverloadError:
        return False
    return True


def test_nothing_is_left_behind_after_a_kill_of_the_parent(tmp_path: Path) -> None:
    before = set(os.listdir("/dev/shm"))
    command = [sys.executable, "-m", "tests.host.workers.kit.app", str(tmp_path), "1", "3000", "2"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as app:
        assert app.stdout is not None
        pids = [int(pid) for pid in app.stdout.readline().split()[1:]]
        watched = [os.pidfd_open(pid) for pid in pids]
        app.kill()
        for file in watched:
            assert select.select([file], [], [], TIMEOUT_S)[0]
            os.close(file)
    assert set(os.listdir("/dev/shm")) <= before
    # The folder's lock is free, and a stream goes on.
    with opened(1, checkpoint=tmp_path / "checkpoint") as stream:
        assert stream.position("a") >= 0
    assert sunk(tmp_path / "sink") == sunk(tmp_path / "sink")


@pytest.mark.slow
def test_a_checkpoint_that_cannot_be_written_or_read_says_what_to_do(tmp_path: Path) -> None:
    place = tmp_path / "c"
    stream = opened(2, checkpoint=place)
    stream.push("a", batches(0, 1)[0])
    stream.flush()
    with pytest.raises(FileError, match="another stream uses the checkpoint"):
        _with_short_lock(place)
    os.rename(place, tmp_path / "moved")
    stream.push("a", batches(0, 1)[0])
    with pytest.raises(FileError, match=r"cannot write .*/part-0000000002.* No such file"):
        stream.flush()
    with pytest.raises(FileError):
        stream.close()
    (state,) = (tmp_path / "moved").glob("*-0001-*.state")
    os.truncate(state, 20)
    with pytest.raises(FileError, match=r"\.state has 20 bytes, not .*; bring the folder"):
        opened(2, checkpoint=tmp_path / "moved")
    state.unlink()
    with pytest.raises(FileError, match=r"\.state is gone; bring the folder"):
        opened(1, checkpoint=tmp_path / "moved")


def _with_short_lock(place: Path) -> None:
    from penstock.host.workers.records.folder import CheckpointFolder

    CheckpointFolder(place, lock_s=0.05)


IN_A_THREAD = """
    import threading
    import pyarrow as pa
    import penstock

    schema = pa.schema([("k", pa.int64()), ("t", pa.int64())])
    opened = []
    def begin():
        opened.append(penstock.stream(
            "SELECT k, t, count(*) AS n FROM a GROUP BY k, t", {"a": schema}, time={"a": "t"},
            workers=2))
    one = threading.Thread(target=begin)  # as a notebook's cells are run: it ends before the stream
    one.start()
    one.join()
    stream, = opened
    stream.push("a", pa.record_batch([[1, 1, 2], [5, 5, 5]], schema=schema))
    print(sorted(map(tuple, (row.values() for row in stream.close().to_pylist()))))
"""


def test_it_works_from_a_command_line_and_a_thread_that_ends() -> None:
    program = IN_A_THREAD.replace("workers=2", f"workers={effort(2, 1)}")
    command = [sys.executable, "-c", textwrap.dedent(program)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert run.stderr == ""
    assert run.stdout == "[(1, 5, 2), (2, 5, 1)]\n"
