"""An entrance that was restored judges rows as the one before would have."""

from __future__ import annotations

import json
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import UsageError
from penstock.host.join.stream.entrance import Entrance
from penstock.query import compile_query
from tests.host.kit.streams import SCHEMA

QUERY = compile_query(
    "SELECT a.n AS n FROM a JOIN b ON a.t = b.t",
    {"a": SCHEMA, "b": SCHEMA},
    time={"a": "t", "b": "t"},
)


def opened() -> Entrance:
    schemas = {"l": SCHEMA, "r": SCHEMA}
    return Entrance(QUERY.sides, schemas, disorder={"a": 3}, idle_s=None, time_zone=None)


def push(entrance: Entrance, feed: str, times: list[int]) -> list[bool]:
    own = entrance.find("a")
    columns = [pa.array(times, field.type) for field in SCHEMA]
    admitted = entrance.admit(own, feed, np.array(times))
    late = np.flatnonzero(~admitted.on_time)
    batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    entrance.take(own, feed, batch, admitted, late)
    return admitted.on_time.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_a_restored_entrance_goes_on(seed: int) -> None:
    rng, one = Random(seed), opened()
    if feeds := rng.choice([[""], ["x", "y"]]):
        for feed in filter(None, feeds):
            one.register(one.find("a"), feed, rng.choice([None, 1, 9]))
    moments = [(rng.choice(feeds), [rng.randrange(20 + k) for _ in range(3)]) for k in range(40)]
    for feed, times in moments[:20]:
        push(one, feed, times)
    if rng.random() < 0.5:
        one.signal(one.find("a"), feeds[0], 15)
    other = opened()
    other.restore(json.loads(json.dumps(one.state())))
    own = other.find("a")
    assert {f: other.rows(own, f) for f in feeds} == {
        f: 3 * sum(feed == f for feed, _ in moments[:20]) for f in feeds
    }
    for feed, times in moments[20:]:
        assert push(one, feed, times) == push(other, feed, times)
    assert one.state() == other.state()
    assert (one.late, one.arrived, one.lags({"l": 5})) == (
        other.late,
        other.arrived,
        other.lags({"l": 5}),
    )
    assert one.promised("l") == other.promised("l")


def test_an_unknown_feed_is_refused() -> None:
    with pytest.raises(UsageError, match="a has no feed 'z'"):
        push(opened(), "z", [1])
