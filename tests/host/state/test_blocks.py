"""Blocks and saved states, sound and damaged."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest

from penstock.errors import DataError
from penstock.host.device.fields import MalformedError
from penstock.host.state import GroupState
from penstock.plan.group_query import GroupQuery
from tests.host.state import rows_by_hand
from tests.host.state.hand_workers import query_of
from tests.host.state.rows_by_hand import CASES, SCHEMA, batch_of


def sealed(sql: str = CASES[1].sql) -> tuple[GroupQuery, bytes]:
    """A query and a block that worker 0 sends to worker 1."""
    query = query_of(sql)
    state = GroupState(query, SCHEMA, rank=0, size=2)
    rows = rows_by_hand.random_rows(np.random.default_rng(8), 60, 0, 30)
    state.fold(batch_of(rows))
    (block,) = state.seal()[1]
    return query, bytes(block)


def test_damaged_blocks_are_refused():
    query, block = sealed()
    rng = np.random.default_rng(9)
    head = 300
    for _ in range(200):
        damaged = bytearray(block)
        damaged[rng.integers(head)] ^= 1 << rng.integers(8)
        with pytest.raises(MalformedError):
            GroupState(query, SCHEMA, rank=1, size=2).merge(0, bytes(damaged))
    for end in [*rng.integers(0, len(block), 50).tolist(), len(block) - 8]:
        with pytest.raises(MalformedError):
            GroupState(query, SCHEMA, rank=1, size=2).merge(0, block[:end])
    assert GroupState(query, SCHEMA, rank=1, size=2).merge(0, block) > 0


def test_damaged_entries_never_crash():
    query, block = sealed()
    words = GroupState(query, SCHEMA)._layout.words
    rng = np.random.default_rng(11)
    merged = 0
    for _ in range(100):
        damaged = bytearray(block)
        for _ in range(rng.integers(1, 20)):
            damaged[-int(rng.integers(1, 8 * words * 20))] = rng.integers(256)
        state = GroupState(query, SCHEMA, rank=1, size=2)
        # A channel has a checksum of its own: without, groups may be wrong, but nothing else.
        with suppress(MalformedError, DataError):
            merged += state.merge(0, bytes(damaged))
            assert state.finish().num_rows <= merged
    assert merged > 0


def test_blocks_of_others_are_refused():
    query, block = sealed()
    other = GroupState(query, SCHEMA, rank=1, size=3)
    with pytest.raises(MalformedError, match="does not come from worker 2"):
        other.merge(2, block)
    with pytest.raises(MalformedError, match="another query"):
        GroupState(query_of(CASES[0].sql), SCHEMA, rank=1, size=2).merge(0, block)
    with pytest.raises(MalformedError, match="out of its place"):
        other.load([block], 2)


def test_a_block_whose_texts_were_lost_is_refused():
    query = query_of(CASES[1].sql)
    state = GroupState(query, SCHEMA, rank=0, size=2)
    rows = rows_by_hand.random_rows(np.random.default_rng(8), 60, 0, 30)
    state.fold(batch_of(rows))
    state.seal()
    state.fold(batch_of(rows))
    (second,) = state.seal()[1]
    with pytest.raises(MalformedError, match="never sent"):
        GroupState(query, SCHEMA, rank=1, size=2).merge(0, second)


def test_saved_groups_stay_as_they_were():
    query = query_of(CASES[1].sql)
    state = GroupState(query, SCHEMA)
    rng = np.random.default_rng(10)
    rows = rows_by_hand.random_rows(rng, 80, 0, 30)
    state.fold(batch_of(rows))
    saved = state.save()
    state.fold(batch_of(rows_by_hand.random_rows(rng, 80, 0, 30)))
    copy, expected = GroupState(query, SCHEMA), GroupState(query, SCHEMA)
    copy.load(saved, 1)
    expected.fold(batch_of(rows))
    assert copy.finish().equals(expected.finish())
