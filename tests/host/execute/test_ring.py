"""Residency in a ring: what is leased is never overwritten, what is resident was written."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from penstock.host.execute.buffers import BufferRing, RingSpan


def test_a_range_over_the_end_is_two_spans() -> None:
    ring = BufferRing(8)
    assert ring.make_resident(5, 11) == [RingSpan(5, 5, 8), RingSpan(0, 8, 11)]
    assert ring.spans(6, 8) == [RingSpan(6, 6, 8)]
    assert ring.spans(8, 8) == []


def test_a_range_over_several_buffers_is_a_span_in_each() -> None:
    ring = BufferRing(4, 3)
    assert ring.make_resident(6, 17) == [
        RingSpan(2, 6, 8, 1),
        RingSpan(0, 8, 12, 2),
        RingSpan(0, 12, 16, 0),
        RingSpan(0, 16, 17, 1),
    ]


def test_only_the_increment_is_written() -> None:
    ring = BufferRing(16)
    ring.make_resident(0, 6)
    assert ring.make_resident(2, 9) == [RingSpan(6, 6, 9)]
    assert ring.make_resident(0, 9) == []


def test_more_than_the_capacity_does_not_fit() -> None:
    assert not BufferRing(8).fits(0, 9)


@given(st.integers(0, 1 << 32), st.integers(1, 4))
def test_leased_positions_keep_what_was_written(seed: int, buffers: int) -> None:
    rng = Random(seed)
    each = rng.choice((4, 6, 16))
    capacity = each * buffers
    ring = BufferRing(each, buffers)
    memory: list[list[int | None]] = [[None] * each for _ in range(buffers)]
    leases: list[tuple[int, int]] = []
    at = 0
    for _ in range(60):
        at = max(0, at + rng.randint(-3, 5))
        low, high = at, at + rng.randint(1, capacity)
        if ring.fits(low, high):
            for span in ring.make_resident(low, high):
                assert span.offset + span.high - span.low <= each
                for p in range(span.low, span.high):
                    memory[span.buffer][span.offset + p - span.low] = p
            ring.lease(low, high)
            leases.append((low, high))
        if leases and rng.random() < 0.5:
            ring.release(*leases.pop(rng.randrange(len(leases))))
        for low, high in leases:
            spans = ring.spans(low, high)
            covered = [p for span in spans for p in range(span.low, span.high)]
            assert covered == list(range(low, high))
            read = [
                memory[span.buffer][span.offset + p - span.low]
                for span in spans
                for p in range(span.low, span.high)
            ]
            assert read == covered


def test_idle_rings_take_any_range() -> None:
    ring = BufferRing(8)
    ring.make_resident(0, 8)
    ring.lease(0, 8)
    assert not ring.fits(1, 9)
    ring.release(0, 8)
    assert ring.fits(100, 108)
