"""How often each auction is bid for, on ranks: ``mpiexec -n 3 python examples/ranks.py FOLDER``.

Bids come in six topics. Each rank reads those that are its own, and writes the groups whose keys it
leads. Kill any rank, or all, and start again with as many ranks as you like: what FOLDER/groups has
in the end is the same.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import penstock

TOPICS = 6
BATCHES, ROWS = 40, 5_000
SCHEMA = pa.schema([("auction", pa.int64()), ("price", pa.int64()), ("t", pa.timestamp("ms"))])
QUERY = """
SELECT auction, window(t, '10 seconds').start AS w, count(*) AS bids, max(price) AS price
FROM bids GROUP BY auction, window(t, '10 seconds')
"""


def read(topic: int, position: int) -> Iterator[pa.RecordBatch]:
    """Bids of a topic from a row on, one second per batch."""
    random = np.random.default_rng(topic)
    for second in range(BATCHES):
        columns = [
            random.integers(1_000, size=ROWS),
            random.integers(1, 10_000, size=ROWS),
            (second * 1_000 + np.arange(ROWS) * 1_000 // ROWS).astype("datetime64[ms]"),
        ]
        batch = pa.record_batch(columns, SCHEMA)
        first = second * ROWS
        if position < first + ROWS:
            yield batch.slice(max(position - first, 0))


def main(folder: Path) -> None:
    """Group the bids of this rank's topics, together with all other ranks."""
    groups = folder / "groups"
    groups.mkdir(parents=True, exist_ok=True)

    def write(polled: penstock.workers.PolledPart | None) -> bool:
        """Replace the groups of a number and rank as a whole."""
        if polled is None:
            return False
        name = f"{polled.number:08d}-{polled.rank}.parquet"
        pq.write_table(polled.rows, folder / name)
        (folder / name).rename(groups / name)
        return True

    workers = penstock.workers.mpi()
    checkpoint = penstock.Checkpoint(folder / "checkpoint", every_s=0.5)
    with penstock.stream(QUERY, {"bids": SCHEMA}, workers=workers, checkpoint=checkpoint) as stream:
        own = range(workers.rank, TOPICS, workers.size)
        topics = {}
        for topic in own:
            stream.register("bids", f"topic {topic}")
            topics[topic] = read(topic, stream.position("bids", f"topic {topic}"))
        while topics:  # in turns, since groups wait for the last of all topics
            for topic in list(topics):
                batch = next(topics[topic], None)
                if batch is None:
                    stream.deregister("bids", f"topic {topic}")
                    del topics[topic]
                else:
                    stream.push("bids", batch, feed=f"topic {topic}")
            while write(stream.poll()):
                pass
        more = write(stream.close())
        while more:
            more = write(stream.poll())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
