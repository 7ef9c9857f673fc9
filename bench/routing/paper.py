"""The paper's experiments (section 5), run on nodes in one process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from bench.routing.choices import dealt
from bench.routing.homes import ByHash
from bench.routing.methods import JOINS, Biclique, ByKeys, Matrix
from bench.routing.nodes import Method, Nodes, Whole
from bench.routing.readj import readj
from penstock.errors import PenstockError
from penstock.host.model.cpu import Cores
from penstock.host.routing.loads import Loads
from penstock.host.routing.moves_plan import plan

from .tpch import KeyStreams, orders, suppliers, zipf_keys

#: The paper's queries.
QUERIES: dict[str, Callable[[float, float, int], KeyStreams]] = {"EQ5": suppliers, "B_NCI": orders}
JOIN_METHODS = tuple(JOINS)
COUNT_METHODS = ("QMMP", "MNRT", "Readj", "hash", "PKG", "D-Choices", "W-Choices")
NODES, BATCHES, WINDOW = 16, 20, 6
#: Real streams that are counted by key: file and column.
REAL = {"zeek client": ("zeek_dns", "orig_ip"), "gjobs user": ("gjobs", "user"),
        "adsb aircraft": ("adsb", "icao24")}  # fmt: skip


@dataclass(frozen=True)
class JoinRun:
    """A join by one method.

    Parameters
    ----------
    seconds : float
        Of the busiest node, and of plans and moves.
    received : float
        Tuples that a node received, on average.
    rebalance_s : float
        To take one more node, or four for one, at the end.
    """

    seconds: float
    received: float
    rebalance_s: float


@dataclass(frozen=True)
class CountRun:
    """Counts by key: tuples a second, and seconds until a count is merged."""

    per_s: float
    latency_s: float


def seconds_of(nodes: Nodes, costs: Cores) -> np.ndarray:
    """Seconds that each node has worked, by the costs of a calibrated core."""
    counts = nodes.counts
    assert counts is not None
    evaluating = counts.evaluations / costs.lane_evaluations_per_s
    return counts.received * costs.tuple_s + evaluating + counts.rows * costs.row_s


def joined(
    streams: KeyStreams, name: str, count: int, costs: Cores, window: int | None = None
) -> JoinRun:
    """Join two streams by a method, and compare its rows with one node's.

    Raises
    ------
    PenstockError
        Rows are lost, or doubled.
    """
    method = JOINS[name](count, streams.keys, streams.band)
    nodes = Nodes(streams.keys, streams.band, window)
    nodes.run(method, streams, BATCHES)
    rows, checksum = _whole(streams, window)
    if (nodes.rows, nodes.checksum) != (rows, checksum):
        raise PenstockError(f"{name} gives {nodes.rows} rows, and one node {rows}")
    busy = float(seconds_of(nodes, costs).max())
    assert nodes.counts is not None
    received = float(nodes.counts.received.mean())
    seconds = busy + nodes.plan_s + nodes.moved * costs.tuple_s / count
    before_s, before = nodes.plan_s, nodes.moved
    method.grow(nodes)
    rebalance = nodes.plan_s - before_s + (nodes.moved - before) * costs.tuple_s
    return JoinRun(seconds, received, rebalance)


@lru_cache(maxsize=4)
def _whole(streams: KeyStreams, window: int | None) -> tuple[int, int]:
    """Rows of the join, and their checksum, from one node."""
    whole = Nodes(streams.keys, streams.band, window)
    whole.run(Whole(), streams, BATCHES)
    return whole.rows, whole.checksum


def nodes_used(streams: KeyStreams, name: str, share: float) -> list[int]:
    """Nodes after each micro-batch, if none holds more than a share of all tuples."""
    first: dict[str, Callable[[], Method]] = {
        "Dynamic": lambda: Matrix(1),
        "Bi": partial(Biclique, 1, 2, streams.keys, streams.band),
        "Bi6": partial(Biclique, 6, 12, streams.keys, streams.band),
    }
    made = first.get(name, partial(ByKeys, name.lower(), 1, streams.keys, streams.band))()
    nodes, used = Nodes(streams.keys, streams.band), []
    most = share * (len(streams.left) + len(streams.right))
    for batch in range(BATCHES):
        for side, own in enumerate((streams.left, streams.right)):
            low, high = (len(own) * k // BATCHES for k in (batch, batch + 1))
            nodes.take(made, side, own[low:high], batch)
        made.adapt(nodes)
        while nodes.stored(made.count).max() > most and made.count < 256:
            made.grow(nodes)
        used.append(made.count)
    return used


def plan_seconds(keys: np.ndarray, known: int, name: str, tolerance: float) -> float:
    """Seconds of a plan for counts by key, from base routing on: the least of three."""
    load = np.bincount(keys, minlength=known).astype(np.int64)
    homes = ByHash().homes(np.arange(known), NODES)
    took = []
    for _ in range(3):
        began = time.perf_counter()
        if name == "Readj":
            readj(load, homes, NODES, tolerance, 20 * NODES)
        else:
            cells = np.flatnonzero(load)
            loads = Loads(cells, homes[cells], load[cells], homes=homes, lanes=NODES)
            plan(loads, tolerance, name.lower())
        took.append(time.perf_counter() - began)
    return min(took)


def counted(keys: np.ndarray, known: int, name: str, costs: Cores) -> CountRun:
    """Count tuples by key, in micro-batches; partial counts are merged on one node.

    Raises
    ------
    PenstockError
        The merged counts are not those of one node.
    """
    nodes = _count_nodes(keys, known, name)
    both = np.unique(keys * NODES + nodes)
    partial_counts = np.bincount(keys * NODES + nodes)[both]
    merged = np.bincount(both // NODES, partial_counts, known)
    if not np.array_equal(merged, np.bincount(keys, minlength=known)):
        raise PenstockError(f"{name} counts other tuples than one node")
    parts = np.bincount(both // NODES, minlength=known)
    # A timer sends partial counts of split keys with each micro-batch.
    merges = int(parts[parts > 1].sum()) * BATCHES
    busy = float(np.bincount(nodes, minlength=NODES).max()) * costs.tuple_s
    merging = merges * costs.tuple_s
    return CountRun(len(keys) / max(busy, merging), (busy + merging) / BATCHES)


def _count_nodes(keys: np.ndarray, known: int, name: str) -> np.ndarray:
    if name in ("PKG", "D-Choices", "W-Choices"):
        return dealt(name, keys, known, NODES)
    # What is known of the first half routes all: plans forecast.
    method = ByKeys(name.lower(), NODES, known, 0)
    nodes, half = Nodes(known, 0), len(keys) // 2
    nodes.take(method, 0, keys[:half], 0)
    method.adapt(nodes)
    return method.store(0, keys)[1]


def real_keys() -> Iterator[tuple[str, np.ndarray, int]]:
    """Keys of real streams, numbered; none without PENSTOCK_DATA."""
    folder = os.environ.get("PENSTOCK_DATA")
    if folder:
        import pyarrow.parquet as pq

        for name, (file, column) in REAL.items():
            values = pq.read_table(f"{folder}/{file}.parquet", columns=[column])[column]
            numbers = values.combine_chunks().dictionary_encode().indices.to_numpy()
            yield name, numbers.astype(np.int64), int(numbers.max()) + 1


def zipf_topics(exponent: float, rows: int) -> tuple[np.ndarray, int]:
    """Topics by Zipf's law, 10,000 of them."""
    rng = np.random.default_rng([7, round(100 * exponent)])
    return zipf_keys(10_000, exponent, rows, rng), 10_000
