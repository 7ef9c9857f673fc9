"""What sorting a block of a window costs beside reading its file: ``python -m bench.host.sorting``.

Spark's workers read blocks of state from Parquet files, in the order of time, and sort them by cell
once in each worker.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

from penstock.host.prune.cells import Axis, Grid
from penstock.host.prune.ordering import SlabOrdering

ROWS, SLAB, ROUNDS = 1_000_000, 1 << 18, 7
#: Bits of a coordinate, and of its buckets.
BITS, BUCKET_BITS = 20, 9


def main() -> None:
    argparse.ArgumentParser(prog="python -m bench.host.sorting", description=__doc__).parse_args()
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 1 << BITS, (2, ROWS), np.int32)
    time_us = np.sort(rng.integers(0, 1 << 40, ROWS))
    block = pa.table({"id": np.arange(ROWS), "t": time_us, "x": x, "y": y})
    codes = [x.astype(np.uint32), y.astype(np.uint32)]
    table = np.arange(1 << BUCKET_BITS, dtype=np.uint32)
    axes = (Axis(d, 0, BITS - BUCKET_BITS, table, len(table)) for d in range(2))
    grid = Grid((), 0, tuple(axes), (1 << 32) - 1)

    def order() -> None:
        def read(low: int, high: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
            part = [column[low:high] for column in codes]
            return part, part

        SlabOrdering(SLAB, 0, grid).extend(ROWS, read, 1)

    with TemporaryDirectory() as folder:
        path = Path(folder) / "block.parquet"
        pq.write_table(block, path)
        read_ms, sort_ms = [], []
        for _ in range(ROUNDS):
            read_ms.append(_cpu_ms(lambda: pq.read_table(path)))
            sort_ms.append(_cpu_ms(order))
    share = median(sort_ms) / median(read_ms)
    Console(soft_wrap=True).print(
        f"{ROWS:,} rows of 4 columns, CPU time: read {median(read_ms):.0f} ms, "
        f"sort by cell {median(sort_ms):.0f} ms, {share:.2f} of reading"
    )


def _cpu_ms(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return 1e3 * (time.process_time() - began)


if __name__ == "__main__":
    main()
