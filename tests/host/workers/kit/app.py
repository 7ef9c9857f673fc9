"""A program that runs a query on workers, into a sink that keeps each number once.

``python -m tests.host.workers.kit.app FOLDER SEED BATCHES WORKERS``. ``CASE`` in its environment
names the query (:mod:`.cases`). Started again after its end, it goes on from its checkpoint. It
says ``workers PID ..`` once it runs, and ``done`` at the end.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from penstock import Checkpoint
from penstock.host.store.atomic import atomic
from tests.host.workers.kit.cases import told
from tests.host.workers.kit.groups import comparable

#: Seconds between checkpoints.
EVERY_S = 0.05
#: Batches between two flushes: each makes a checkpoint.
FLUSHED = 6


def put(sink: Path, number: int, rows: pa.Table) -> None:
    """Replace a number as a whole; what was given under it before must be the same rows."""
    put_file(sink / f"{number:010d}.arrow", rows)


def put_file(path: Path, rows: pa.Table) -> None:
    """Replace a file of rows; what was in it before must be the same rows."""
    if path.exists() and comparable(read(path)) != comparable(rows):
        raise SystemExit(f"{path.stem} was given again with other rows")
    with (
        atomic(path) as partial,
        pa.OSFile(str(partial), "wb") as file,
        pyarrow.ipc.new_stream(file, rows.schema) as writer,
    ):
        writer.write_table(rows)


def read(path: Path) -> pa.Table:
    """Rows of a number."""
    with pa.OSFile(str(path), "rb") as file:
        return pyarrow.ipc.open_stream(file).read_all()


def sunk(sink: Path) -> list[tuple[Any, ...]]:
    """All rows of the sink."""
    tables = [read(path) for path in sorted(sink.glob("*.arrow"))]
    return comparable(pa.concat_tables(tables)) if tables else []


def run(folder: Path, seed: int, count: int, workers: int) -> None:
    """Push all rows from the checkpoint's position on."""
    sink = folder / "sink"
    sink.mkdir(exist_ok=True)

    def drain() -> None:
        while (polled := stream.poll()) is not None:
            put(sink, *polled)

    case = told()
    stream = case.opened(workers, checkpoint=Checkpoint(folder / "checkpoint", every_s=EVERY_S))
    print("workers", *stream.processes, flush=True)  # noqa: T201
    sources = case.sources(seed, count)
    position = {name: stream.position(name) for name in sources}
    for place in range(count):
        if place % FLUSHED == FLUSHED - 1:
            stream.flush()
        for name, given in sources.items():
            skipped = min(position[name], given[place].num_rows)
            position[name] -= skipped
            if skipped < given[place].num_rows:
                stream.push(name, given[place].slice(skipped))
                drain()
    last = stream.close()
    if last is not None:
        put(sink, *last)
    drain()
    print("done", flush=True)  # noqa: T201


if __name__ == "__main__":
    run(Path(sys.argv[1]), *map(int, sys.argv[2:]))
