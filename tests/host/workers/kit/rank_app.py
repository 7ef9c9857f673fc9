"""A rank of a program with streams of several feeds, into a sink that keeps each part once.

``python -m tests.host.workers.kit.rank_app FOLDER SEED BATCHES CHECKPOINT [ADDRESS RANK SIZE]``, or
under ``mpiexec`` without the last three. CHECKPOINT is 1 or 0. Feed i is read by rank i mod size.
``CASE`` in its environment names the query (:mod:`.cases`).
With ``ROWS=N`` in its environment a batch has so many rows, and their keys hardly ever repeat: more
than channels hold. With ``HOSTS=N`` it holds itself to be on one of N hosts (:func:`.hub.spread`).
Each rank says ``open`` once it runs, ``lost`` if another was lost, and ``done`` at the end.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import penstock
from penstock import Checkpoint
from penstock.errors import LostError
from penstock.host.workers import Workers
from tests.host.workers.kit.app import put_file
from tests.host.workers.kit.cases import Case, Sources, told
from tests.host.workers.kit.groups import batches
from tests.host.workers.kit.hub import HubWorkers, place_of

FEEDS = 3
#: Seconds between checkpoints.
EVERY_S = 0.05
#: Batches between two flushes: each makes a checkpoint.
FLUSHED = 7


def pushed(case: Case, seed: int, count: int, rows: int = 0) -> Sources:
    """Return what all ranks push together; of batches of many rows most keys differ."""
    if rows:
        return {"a": batches(seed, count, rows, keys=100 * rows)}
    return case.sources(seed, count)


def run(
    folder: Path,
    seed: int,
    count: int,
    saves: bool,
    workers: Workers,
    *,
    at_half: Callable[[], None] | None = None,
) -> None:
    """Push all rows of this rank's feeds from the checkpoint's positions on.

    Parameters
    ----------
    at_half : callable, optional
        Called once half of the rows have been pushed.
    """
    sink = folder / "sink"
    sink.mkdir(exist_ok=True)
    how = {"checkpoint": Checkpoint(folder / "checkpoint", every_s=EVERY_S)} if saves else {}
    case = told()
    own = {
        (name, f"f{i}"): given[i::FEEDS]
        for name, given in pushed(case, seed, count, int(os.environ.get("ROWS", "0"))).items()
        for i in range(FEEDS)
        if i % workers.size == workers.rank
    }
    with case.opened(workers, lease_s=60.0, **how) as stream:
        print("open", flush=True)  # noqa: T201

        def drain() -> None:
            while (polled := stream.poll()) is not None:
                number, rank, rows = polled
                put_file(sink / f"{number:010d}-{rank}.arrow", rows)

        left = {}
        for name, feed in own:
            stream.register(name, feed)
            left[name, feed] = stream.position(name, feed)
        for place in range(count // FEEDS + 1):
            if at_half is not None and place == count // FEEDS // 2:
                at_half()
            for (name, feed), parts in own.items():
                if place >= len(parts):
                    continue
                batch = parts[place]
                skipped = min(left[name, feed], batch.num_rows)
                left[name, feed] -= skipped
                if skipped < batch.num_rows:
                    stream.push(name, batch.slice(skipped), feed=feed)
                    if saves:
                        drain()
            if place % FLUSHED == FLUSHED - 1:
                stream.flush()
        last = stream.close()
        if saves:
            if last is not None:
                put_file(sink / f"{last.number:010d}-{last.rank}.arrow", last.rows)
            drain()
        else:
            put_file(sink / f"{workers.rank}.arrow", last)
    print("done", flush=True)  # noqa: T201


def main(arguments: list[str]) -> int:
    """Run a rank; exit status 3 tells that another was lost."""
    folder, seed, count, saves, *hub = arguments
    if hub:
        address, rank, size = hub
        workers: Workers = HubWorkers(address, int(rank), int(size))
    else:
        workers = penstock.workers.mpi()
    if (hosts := int(os.environ.get("HOSTS", "1"))) > 1:
        workers.place = place_of(workers.rank, hosts)
    try:
        run(Path(folder), int(seed), int(count), saves == "1", workers)
    except LostError as error:
        print("lost", error, flush=True)  # noqa: T201
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
