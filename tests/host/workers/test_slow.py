"""A worker that is ten times slower than the others: the stream waits within its memory."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pytest

from tests.host.workers.kit import groups, joins
from tests.host.workers.kit.cases import CASES
from tests.host.workers.kit.groups import comparable

#: Seconds in which a slowed process runs, and then stands still.
RUNS_S, STANDS_S = 0.002, 0.018
#: Bytes that the stream may hold: far less than is pushed.
MEMORY_BYTES = 1 << 18
COUNT, ROWS = 60, 800


@contextmanager
def slowed(process: int) -> Iterator[None]:
    """Let a process run for a tenth of the time."""
    over = threading.Event()

    def run() -> None:
        with suppress(ProcessLookupError):  # the stream has ended
            while not over.wait(RUNS_S):
                os.kill(process, signal.SIGSTOP)
                over.wait(STANDS_S)
                os.kill(process, signal.SIGCONT)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["theta anti", "groups", "keyed semi"])
def test_the_others_wait_and_nothing_is_late(name: str) -> None:
    sources = "a" if name == "groups" else "ab"
    kit: Any = groups if name == "groups" else joins
    given = {s: kit.batches(seed, COUNT, ROWS) for seed, s in enumerate(sources)}
    pushed = sum(batch.nbytes for own in given.values() for batch in own)
    assert pushed > 7 * MEMORY_BYTES
    flow = {"memory_bytes": MEMORY_BYTES, "push_timeout_s": 60.0, "latency_s": 0.01}
    query = () if name == "groups" else (joins.QUERIES[name],)
    pieces, waiting = [], 0
    with kit.opened(*query, 3, flow=flow) as stream, slowed(stream.processes[1]):
        for place in range(COUNT):
            for source in sources:
                stream.push(source, given[source][place])
                pieces.append(stream.poll())
                memory = stream.report().memory_bytes
                waiting = max(waiting, sum(memory.values()) - memory["workers"])
        pieces.append(stream.close())
        late = stream.late()
    assert not sum(rows.num_rows for rows in (late.values() if isinstance(late, dict) else [late]))
    case = CASES["groups"] if name == "groups" else None
    found = comparable(pa.concat_tables(pieces))
    if case is not None:
        assert case.shown(found) == case.shown(case.rows(given))
    else:
        assert not groups.difference(found, joins.wanted(*query, given["a"], given["b"]))
    assert waiting <= MEMORY_BYTES
