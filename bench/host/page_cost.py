"""What a page costs a stream: ``python -m bench.host.page_cost [TURNS]``.

A page takes a look at a stream each second, and lanes record a sample of what they do. Both are
measured in CPU time of this process, which the process that draws the page is no part of: looks one
by one, and pushes in turns with and without a sample, some 50 ms a turn, so that other load meets
both. Medians over the turns are what a page adds to each second of pushes.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from datetime import timedelta

import numpy as np
import pyarrow as pa
from rich.console import Console

import penstock
from penstock.host.page.history import EVERY_S, SPANS
from penstock.host.page.page import looks_at

#: Share of the CPU time of pushes that a page may take.
TARGET = 0.01
_SCHEMA = pa.schema([("t", pa.timestamp("us")), ("x", pa.int64())])
_QUERY = """
    SELECT a.x AS a, b.x AS b FROM a JOIN b ON abs(a.x - b.x) < 5
    AND a.t BETWEEN b.t - INTERVAL 9 SECONDS AND b.t + INTERVAL 9 SECONDS
"""
#: Rows of a push, of one side, and pushes of a turn.
_ROWS, _PUSHES = 2000, 20
_TURNS = 100


def cost(turns: int) -> tuple[float, float]:
    """Measure the seconds that a look takes, and those that a sample of the lanes adds."""
    random = np.random.default_rng(1)
    flow = penstock.Flow(latency_s=0.05)
    schemas, time_ = {"a": _SCHEMA, "b": _SCHEMA}, {"a": "t", "b": "t"}
    disorder = timedelta(seconds=1)
    with penstock.stream(_QUERY, schemas, time=time_, disorder=disorder, flow=flow) as stream:
        second = 0

        def turn(is_watched: bool) -> float:
            nonlocal second
            if is_watched:
                stream.trace.sample(SPANS)
            began = time.process_time()
            for _ in range(_PUSHES):
                for side in "ab":
                    times = np.sort(random.integers(second, second + 10**6, _ROWS))
                    values = random.integers(0, 100_000, _ROWS)
                    batch = {"t": times.astype("datetime64[us]"), "x": values}
                    stream.push(side, pa.table(batch))
                second += 10**6
                stream.poll()
            stream.flush()
            stream.trace.end_samples()
            return time.process_time() - began

        for _ in range(5):  # kernels compile, and the window fills
            turn(False)
        added = []
        for k in range(turns):
            seconds = {is_watched: turn(is_watched) for is_watched in (k % 2 == 0, k % 2 == 1)}
            added.append(seconds[True] - seconds[False])
        look, spent = looks_at(stream.report, stream.trace), []
        for _ in range(max(5, turns // 5)):
            turn(False)
            stream.trace.sample(SPANS)
            turn(False)
            before = time.process_time()
            json.dumps(look())
            spent.append(time.process_time() - before)
            stream.trace.end_samples()
        stream.close()
    return statistics.median(spent), statistics.median(added)


def main() -> int:
    """Measure and print; whether the cost is within the target decides the exit status."""
    look_s, recording_s = cost(int(sys.argv[1]) if len(sys.argv) > 1 else _TURNS)
    share = (look_s + recording_s) / EVERY_S
    Console().print(
        f"each second a look takes {look_s * 1e3:.2f} ms, and what lanes record "
        f"{recording_s * 1e3:.2f} ms: {share:.2%} of a core"
    )
    return int(share > TARGET)


if __name__ == "__main__":
    sys.exit(main())
