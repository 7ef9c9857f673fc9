"""Residency in a ring: what is leased is never overwritten, what is resident was written."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from penstock.host.execute.ring import Ring, RingSpan


def test_a_range_over_the_end_is_two_spans() -> None:
    ring = Ring(8)
    assert ring.make_resident(5, 11) == [RingSpan(5, 5, 8), RingSpan(0, 8, 11)]
    assert ring.spans(6, 8) == [RingSpan(6, 6, 8)]
    assert ring.spans(8, 8) == []


def test_only_the_increment_is_written() -> None:
    ring = Ring(16)
    ring.make_resident(0, 6)
    assert ring.make_resident(2, 9) == [RingSpan(6, 6, 9)]
    assert ring.make_resident(0, 9) == []


def test_more_than_the_capacity_does_not_fit() -> None:
    assert not Ring(8).fits(0, 9)


@given(st.integers(0, 1 << 32))
def test_leased_positions_keep_what_was_written(seed: int) -> None:
    rng = Random(seed)
    capacity = rng.choice((4, 8, 16))
    ring = Ring(capacity)
    memory: list[int | None] = [None] * capacity
    leases: list[tuple[int, int]] = []
    at = 0
    for _ in range(60):
        at = max(0, at + rng.randint(-3, 5))
        low, high = at, at + rng.randint(1, capacity)
        if ring.fits(low, high):
            for span in ring.make_resident(low, high):
                assert span.offset == span.low % capacity
                assert span.offset + span.high - span.low <= capacity
                for p in range(span.low, span.high):
                    memory[p % capacity] = p
            ring.lease(low, high)
            leases.append((low, high))
        if leases and rng.random() < 0.5:
            ring.release(*leases.pop(rng.randrange(len(leases))))
        for low, high in leases:
            covered = [p for span in ring.spans(low, high) for p in range(span.low, span.high)]
            assert covered == list(range(low, high))
            assert [memory[p % capacity] for p in covered] == covered


def test_idle_rings_take_any_range() -> None:
    ring = Ring(8)
    ring.make_resident(0, 8)
    ring.lease(0, 8)
    assert not ring.fits(1, 9)
    ring.release(0, 8)
    assert ring.fits(100, 108)
