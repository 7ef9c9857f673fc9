"""Memory of kept bodies: it is used again, and never while a body is held."""

from __future__ import annotations

from collections import deque

import numpy as np

from penstock.host.workers.slabs import SLAB_BYTES, Slabs


def test_held_bodies_stay_as_they_are_and_memory_is_used_again() -> None:
    rng = np.random.default_rng(1)
    slabs, held, places = Slabs(), deque(), set()
    for number in range(2_000):
        body = rng.integers(0, 256, int(rng.integers(0, SLAB_BYTES // 40)), np.uint8).tobytes()
        piece = slabs.put(body)
        places.add(np.frombuffer(piece, np.uint8).ctypes.data // SLAB_BYTES)
        held.append((piece, body))
        del piece
        while len(held) > 100 or (number % 500 == 499 and held):
            kept, content = held.popleft()
            assert kept == content
            del kept
    # A hundred bodies need three slabs at most, and slabs touch two aligned places each.
    assert len(places) <= 2 * 5
    assert slabs.free_bytes >= 2 * SLAB_BYTES


def test_a_body_larger_than_a_slab_has_its_own_memory() -> None:
    slabs = Slabs()
    body = np.arange(SLAB_BYTES // 8 + 1).data
    assert slabs.put(body) == memoryview(body).cast("B")
    assert slabs.free_bytes == 0
