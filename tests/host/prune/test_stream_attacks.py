"""Streams with every pair tested, and the same streams searched in the order of cells.

Keys are of all types, with their extremes; they drift, change their range or stop in the middle of
the stream. Windows grow and shrink, so that slabs of all lengths come and go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock.host.device.base import Device
from penstock.host.device.wrapped import WrappedDevice
from penstock.host.execute.running import Running
from penstock.host.join.stream import Flow, JoinStream
from penstock.host.prune.sizes import Pruning
from penstock.query import compile_query
from tests.host.kit.faulty import FaultyDevice
from tests.host.kit.pruning import TINY
from tests.kit.effort import effort
from tests.penstock.kit.devices import InterpretingCpu

SEEDS = st.integers(0, 1 << 32)
LEAST, MOST = -(1 << 63), (1 << 63) - 1
NAN, INF = float("nan"), float("inf")
SCHEMA = pa.schema(
    [
        pa.field("n", pa.int64(), nullable=False),
        pa.field("t", pa.int64()),
        ("k", pa.string()),
        ("s", pa.int16()),
        ("i", pa.int64()),
        ("d", pa.float64()),
        ("f", pa.float32()),
        ("m", pa.decimal128(18, 3)),
    ]
)
SCHEMAS, TIME = {"a": SCHEMA, "b": SCHEMA}, {"a": "t", "b": "t"}
#: Values that a key has now and then.
SPECIAL: dict[str, tuple[Any, ...]] = {
    "k": (None, "", "a\0", "aa", "\u00e4"),
    "s": (None, -(1 << 15), (1 << 15) - 1, 0),
    "i": (None, LEAST, LEAST + 1, MOST, MOST - 1, 0),
    "d": (None, NAN, INF, -INF, 0.0, -0.0, 5e-324, 1.7976931348623157e308),
    "f": (None, NAN, INF, -INF, 0.0, -0.0, 3.4028234663852886e38),
    "m": (None, Decimal("-999999999999999.999"), Decimal("999999999999999.999"), Decimal(0)),
}
CONDITIONS = (
    "a.k = b.k",
    "a.s = b.s",
    "a.i = b.i",
    "a.d = b.d",
    "a.m = b.m",
    "a.k = b.k AND a.s = b.s",
    "a.k = b.k AND abs(a.s - b.s) <= 3",
    "abs(a.s - b.s) <= 2",
    "abs(a.d - b.d) <= 2",
    "abs(a.f - b.f) < 1.5",
    "abs(a.m - b.m) <= 1.5",
    "a.s = b.s AND a.i < b.i",
    "b.s BETWEEN a.s - 4 AND a.s + 1 AND a.d <= b.d",
    "b.d BETWEEN a.f - 1 AND a.f + 1",
    "b.s BETWEEN a.s AND a.s + a.n % 7",
    "abs(a.s - b.s) + abs(a.m - b.m) < 4",
    "(a.s - b.s) * (a.s - b.s) + (a.d - b.d) * (a.d - b.d) <= 9",
    "a.s < b.s AND abs(a.d - b.d) < 3",
    "a.s = b.s AND a.n <> b.n",
    "abs(a.s - b.s) <= 2 AND (a.k = b.k OR a.d > b.d)",
    "(a.s = b.s AND a.k = b.k) OR (a.s = b.s AND a.d < b.d)",
)
#: A window of time, or of rows.
WINDOWS = (
    "abs(a.t - b.t) <= 40",
    "b.t BETWEEN a.t - 150 AND a.t - 1",
    "b.t BETWEEN a.t + 2 AND a.t + 60",
    "a.t = b.t",
    "b.t >= a.t",
    {"a": 90, "b": 90},
    {"a": 3, "b": 250},
)
KINDS = ("INNER", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI")
AGGREGATES = (
    "count(*)",
    "count(b.d)",
    "sum(b.i % 1000)",
    "sum(b.m)",
    "sum(b.d)",
    "avg(b.f)",
    "min(b.s)",
    "max(b.i)",
    "min(b.d)",
    "max(b.m)",
    "min_by(b.n, abs(a.s - b.s))",
    "max_by(b.n, b.s)",
)
#: An order wherever there is one; and where counts of pairs say so, sooner than for a user.
SIZES = (
    TINY,
    Pruning(least_pairs=1, run_rows=(8, 32, 128), always=True),
    Pruning(least_pairs=1, free_rows=1 << 20, run_rows=(16, 64)),
    Pruning(least_pairs=100, free_rows=0, run_rows=(4, 16)),
)


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with InterpretingCpu(threads=2) as opened:
        yield opened


class Ranged(WrappedDevice):
    """A device that has to be given ranges."""

    def __init__(self, inner: Device) -> None:
        super().__init__(inner)
        self.searches = False
        self.name = "ranged"


@dataclass
class Source:
    """Rows of one side in order of arrival."""

    rows: list[tuple]
    disorder: int

    @staticmethod
    def drawn(rng: Random, most: int) -> Source:
        disorder = rng.choice((0, 0, 3, 20))
        spread, base = rng.choice((3, 12, 60)), 0
        clock, rows = 0, []
        is_drifting, only = rng.random() < 0.3, None
        for number in range(rng.randint(0, most)):
            clock += rng.choice((0, 0, 1, 1, 2, 5))
            if rng.random() < 0.003:  # another range of values, or a single one, from here on
                base = rng.choice((0, -30_000, 30_000, 700))
                only = rng.choice((None, None, base))
            base += is_drifting and rng.random() < 0.2
            time = clock - rng.choice((0, 0, rng.randint(0, disorder), rng.randint(0, 30)))
            at = base + rng.randint(-spread, spread) if only is None else only
            row = {
                "k": f"key {at % 9}",
                "s": max(min(at, 32_000), -32_000),
                "i": at,
                "d": at / 4,
                "f": at / 8,
                "m": Decimal(at) / 2,
            }
            for name, values in SPECIAL.items():
                if rng.random() < 0.04:
                    row[name] = rng.choice(values)
            rows.append((number, None if rng.random() < 0.02 else time, *row.values()))
        return Source(rows, disorder)

    def batches(self, rng: Random) -> list[pa.RecordBatch]:
        """All rows, cut anywhere."""
        found, at, most = [], 0, rng.choice((3, 40, 200))
        while at < len(self.rows):
            part = self.rows[at : at + rng.randint(1, most)]
            columns = zip(*part, strict=True)
            arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
            found.append(pa.RecordBatch.from_arrays(arrays, schema=SCHEMA))
            at += len(part)
        return found


def text_of(rng: Random, condition: str, window: object) -> str:
    """A query of pairs, of preserved or existing rows, or of groups."""
    on = f"{window} AND ({condition})" if isinstance(window, str) else condition
    if rng.random() < 0.35:
        chosen = rng.sample(AGGREGATES, rng.randint(1, 3))
        columns = ", ".join(f"{each} AS c{k}" for k, each in enumerate(chosen))
        return f"SELECT a.n, {columns} FROM a JOIN b ON {on} GROUP BY a.n"
    kind = rng.choice(KINDS)
    columns = "a.n AS a" if kind.startswith("LEFT ") else "a.n AS a, b.n AS b"
    return f"SELECT {columns} FROM a {kind} JOIN b ON {on}"


def played(
    query: Any,
    sources: dict[str, Source],
    devices: Sequence[Device],
    flow: Flow,
    seed: int,
) -> tuple[list[str], dict, Any]:
    """All rows as texts, late rows, and counts; a seed gives the same batches again."""
    rng = Random(seed)
    disorder = {name: source.disorder for name, source in sources.items()}
    todo = {name: source.batches(rng) for name, source in sources.items()}
    found: list[str] = []
    with JoinStream(query, SCHEMAS, devices, disorder=disorder, flow=flow) as stream:
        while any(todo.values()):
            name = rng.choice([n for n, batches in todo.items() if batches])
            stream.push(name, todo[name].pop(0))
            if rng.random() < 0.3:
                found += texts(stream.poll())
        found += texts(stream.close())
    return found, stream.stats.late, stream.stats


def texts(table: pa.Table) -> list[str]:
    """Rows as texts; -0.0 is written as 0, since MIN and MAX may give either."""
    columns = ([0 if v == 0 else v for v in c.to_pylist()] for c in table.columns)
    return [repr(row) for row in zip(*columns, strict=True)]


@settings(max_examples=effort(200, 10), deadline=None)
@given(
    SEEDS,
    st.sampled_from(CONDITIONS),
    st.sampled_from(WINDOWS),
    st.sampled_from(SIZES),
    st.booleans(),
    st.sampled_from([0.0, 0.001]),
)
def test_both_ways(
    device: Device,
    seed: int,
    condition: str,
    window: str | dict[str, int],
    sizes: Pruning,
    ordered: bool,
    latency: float,
) -> None:
    rng = Random(seed)
    sources = {name: Source.drawn(rng, rng.choice((30, 300, 700))) for name in "ab"}
    rows = window if isinstance(window, dict) else None
    if rows is not None:  # rows without a time have no place among the last ones
        for source in sources.values():
            source.rows = [row for row in source.rows if row[1] is not None]
    text = text_of(rng, condition, window)
    is_grouped = "GROUP BY" in text
    query = compile_query(text, SCHEMAS, time=TIME, rows=rows, unique={"a": "n"})
    work = rng.choice((3, 1000, 1 << 20)) if len(sources["a"].rows) < 100 else 1 << 14
    ways = []
    with ExitStack() as opened:
        fates = [rng.choice(("ok", "ok", "error", "refused")) for _ in range(6)]
        bad = FaultyDevice(device, lambda: fates.pop() if fates else "ok")
        opened.callback(bad.close)
        chosen = rng.choice(
            (
                [device],
                [Ranged(device)],
                [device, Ranged(device)],
                [bad, device],
                [Ranged(bad), device],
            )
        )
        for pruning, devices in ((False, [device]), (sizes, chosen)):
            running = Running(
                ordered=ordered and not is_grouped, task_evaluations=work, pruning=pruning
            )
            flow = Flow(latency_s=latency, running=running)
            ways.append(played(query, sources, devices, flow, seed))
    (every, late, counts), (found, late_too, _) = ways
    assert late_too == late
    if ordered and not is_grouped and latency == 0:
        assert found == every
    assert sorted(found) == sorted(every)
    assert is_grouped or counts.pairs_pruned + counts.pairs_evaluated == counts.pairs_in_window


def test_keys_beyond_64_bits(device: Device) -> None:
    """Keys that are no machine words, beside one to search by."""
    rows = [Decimal(value) for value in (10**34, -(10**34), *range(1000))]
    numbers = pa.array([k % 100 for k in range(len(rows))], pa.int16())
    times = pa.array([0] * len(rows))
    side = pa.table({"t": times, "s": numbers, "m": pa.array(rows, pa.decimal128(38, 3))})
    found = [
        penstock.sql(
            "SELECT count(*) AS pairs FROM a JOIN b ON a.s = b.s AND a.m * b.m < 100000 "
            "GROUP BY a.s",
            {"a": side, "b": side},
            time=TIME,
            within=0,
            device=device,
            pruning=pruning,
        )
        for pruning in (False, TINY)
    ]
    assert sorted(found[0]["pairs"].to_pylist()) == sorted(found[1]["pairs"].to_pylist())
