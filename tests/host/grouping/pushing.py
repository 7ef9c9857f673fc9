"""Random pushes of a case's rows to a stream, and a plain model of which of them are late."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import timedelta

import numpy as np
import pyarrow as pa

from tests.host.grouping.kit import Case, as_integers


@dataclass
class Feed:
    """One feed, as docs/streams/streams.md has it.

    Parameters
    ----------
    disorder : int
        In the unit of the times.
    """

    disorder: int
    largest: float = -math.inf
    promise: float = -math.inf

    @property
    def bound(self) -> float:
        return max(self.promise, self.largest - self.disorder)


@dataclass
class Model:
    """Judges rows one by one; the source's bound is the least of its feeds', and never falls."""

    feeds: dict[str, Feed]
    floor: float = -math.inf
    kept: list[tuple[str, int]] = field(default_factory=list)
    late: list[int] = field(default_factory=list)

    def admitted(self, table: pa.Table) -> pa.Table:
        """Rows on time, numbered by their feeds, which are registered in order of their names."""
        rows = pa.array([row for _, row in sorted(self.kept)], pa.int64())
        return table.take(rows).set_column(0, "n", pa.array(np.arange(len(rows))))

    def raised(self) -> float:
        if self.feeds:
            self.floor = max(self.floor, min(feed.bound for feed in self.feeds.values()))
        return self.floor

    def push(self, name: str, rows: range, times: list[int | None]) -> None:
        floor, feed = self.raised(), self.feeds[name]
        for row in rows:
            time = times[row]
            if time is None or time >= max(floor, feed.bound):
                self.kept.append((name, row))
            else:
                self.late.append(row)
            if time is not None:
                feed.largest = max(feed.largest, time)
        self.raised()


def disorder_of(case: Case, units: int) -> tuple[int, int | timedelta]:
    """About this disorder, in units of a case's time, and as callers give it."""
    kind = case.table.schema.field("t").type
    if not pa.types.is_timestamp(kind):
        return units, units
    if kind.unit == "ns":  # a duration has whole microseconds
        units = units // 20 * 1000
        return units, timedelta(microseconds=units // 1000)
    return units, units * timedelta(microseconds={"s": 10**6, "ms": 10**3, "us": 1}[kind.unit])


def pushed(stream, case: Case, rng: np.random.Generator, disorder: int) -> tuple[Model, pa.Table]:
    """Push all rows in random cuts by one feed or several, with promises; close.

    Returns
    -------
    Model
    pyarrow.Table
        All that was polled, in order.
    """
    times = as_integers(case.table["t"]).to_pylist()
    names = [""] if rng.random() < 0.5 else ["a", "b", "c"][: rng.integers(1, 4)]
    for name in names:
        if name:
            stream.register("g", name)
    model = Model({name: Feed(disorder) for name in names})
    found, row = [], 0
    while row < len(times):
        rows = range(row, min(len(times), row + int(rng.integers(0, 40))))
        row = rows.stop
        name = names[rng.integers(0, len(names))]
        batch = case.table.slice(rows.start, len(rows))
        stream.push("g", batch, **({"feed": name} if name else {}))
        model.push(name, rows, times)
        if rng.random() < 0.3:
            promise = next((t for t in times[rows.start :] if t is not None), None)
            if promise is not None:
                promise -= int(rng.integers(0, 30))
                stream.advance("g", promise, **({"feed": name} if name else {}))
                model.feeds[name].promise = max(model.feeds[name].promise, promise)
                model.raised()
        if len(model.feeds) > 1 and rng.random() < 0.1:
            name = names.pop()
            stream.deregister("g", name)
            del model.feeds[name]
            model.raised()
        if rng.random() < 0.1:
            stream.flush()
        if rng.random() < 0.3:
            found.append(stream.poll())
    late = stream.late()["g"]
    assert late["n"].to_pylist() == model.late
    found.append(stream.close())
    return model, pa.concat_tables(found)
