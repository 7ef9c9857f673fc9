"""States of a query as workers, without processes: the test decides what arrives when."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.host.state import FoldedRows, GroupState
from penstock.plan.group_query import GroupQuery
from penstock.query.compiler import compile_select
from tests.host.state import rows_by_hand
from tests.host.state.rows_by_hand import SCHEMA, Case, Row, batch_of, groups, plain


def query_of(sql: str, schema: pa.Schema = SCHEMA) -> GroupQuery:
    time = {"s": "t"} if "t" in schema.names else None
    query = compile_select(sql, {"s": schema}, time=time)
    assert isinstance(query, GroupQuery)
    return query


class Workers:
    """States of a query and the channels between them: blocks arrive in order, at any time."""

    def __init__(self, query: GroupQuery, size: int, rng: np.random.Generator, fast: bool) -> None:
        self.query, self.rng, self.fast = query, rng, fast
        self.states = [GroupState(query, SCHEMA, rank=r, size=size) for r in range(size)]
        if fast:
            for state in self.states:
                state.compile()
        self.channels: dict[tuple[int, int], deque[bytes]] = {}
        self.out: list[pa.RecordBatch] = []

    def fold(self, rows: list[Row]) -> FoldedRows:
        """Fold neighbouring rows of one feed in one of the workers."""
        state = self.states[self.rng.integers(len(self.states))]
        return state.fold(batch_of(rows), rows[0]["feed"], rows[0]["row"])

    def seal(self, rank: int) -> None:
        for to, blocks in enumerate(self.states[rank].seal()):
            self.channels.setdefault((rank, to), deque()).extend(map(bytes, blocks))
        assert self.states[rank].changed == 0

    def deliver(self, most: int) -> None:
        """Merge some blocks that are under way, of any channel."""
        for _ in range(most):
            busy = [key for key, queue in sorted(self.channels.items()) if queue]
            if not busy:
                return
            sender, to = busy[self.rng.integers(len(busy))]
            self.states[to].merge(sender, self.channels[sender, to].popleft())

    def settle(self) -> None:
        """End an epoch everywhere."""
        for rank in self.rng.permutation(len(self.states)):
            self.seal(int(rank))
        self.deliver(1 << 30)

    def move(self, size: int) -> None:
        """Go on with another number of workers, from what these have saved."""
        saved = [bytes(block) for state in self.states for block in state.save()]
        entries, before = sum(s.entries for s in self.states), len(self.states)
        self.states = [GroupState(self.query, SCHEMA, rank=r, size=size) for r in range(size)]
        taken = [state.load(iter(saved), before) for state in self.states]
        assert sum(taken) == sum(s.entries for s in self.states) == entries

    def release(self, limit: int | float) -> list[pa.RecordBatch]:
        found = [state.release(limit) for state in self.states]
        self.out += found
        return found


def found_groups(case: Case, out: list[pa.RecordBatch]) -> dict[tuple, list]:
    """Output rows by key; each key is there once."""
    names = case.sql.partition("FROM")[0]
    keys = key_names(case)
    made: dict[tuple, list] = {}
    for row in pa.Table.from_batches(out).to_pylist():
        key = tuple(plain(row.pop(name)) for name in keys)
        assert key not in made, f"{key} left twice of {names}"
        made[key] = list(row.values())
    return made


def key_names(case: Case) -> list[str]:
    return {
        "numbers": ["k", "w"],
        "texts": ["w", "name", "raw", "code"],
        "kinds": ["f", "g", "flag", "price", "day", "huge", "u", "w"],
        "everything": [],
        "distinct": ["name", "day", "r"],
        "having": ["small"],
    }[case.name]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    return a == b


def check(case: Case, out: list[pa.RecordBatch], rows: list[Row]) -> None:
    found, expected = found_groups(case, out), groups(case, rows)
    assert set(found) == set(expected)
    for key, values in expected.items():
        pairs = list(zip(values, found[key], strict=True))
        assert all(same(a, b) for a, b in pairs), (case.name, key, pairs)


def dealt(rng: np.random.Generator, phases: int) -> list[list[Row]]:
    """Rows by phase of 20 s, each in one of three feeds."""
    counts = [0, 0, 0]
    made = []
    for phase in range(phases):
        rows = rows_by_hand.random_rows(rng, int(rng.integers(0, 90)), 20 * phase - 20, 20)
        for row in rows:
            row["feed"] = int(rng.integers(3))
            row["row"] = counts[row["feed"]]
            counts[row["feed"]] += 1
        made.append(rows)
    return made


def chunks(rng: np.random.Generator, rows: list[Row]) -> list[list[Row]]:
    """Runs of rows of one feed, in any order of feeds."""
    cut: list[list[Row]] = []
    for feed in range(3):
        own = [row for row in rows if row["feed"] == feed]
        while own:
            some = int(rng.integers(1, 30))
            cut.append(own[:some])
            own = own[some:]
    return [cut[k] for k in rng.permutation(len(cut))]
