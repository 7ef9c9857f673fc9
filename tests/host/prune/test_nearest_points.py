"""Nearest points by boxes, beside all distances."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.host.prune.nearest_points import Points


def drawn(rng: np.random.Generator, rows: int, dims: int, shape: str) -> np.ndarray:
    points = rng.normal(size=(rows, dims))
    if shape == "grid":
        return np.floor(points * 3)
    if shape == "skewed":
        return np.exp(points * 8) * rng.choice([-1, 1], (rows, dims))
    return np.zeros((rows, dims)) if shape == "one place" else points


@pytest.mark.parametrize("shape", ["spread", "grid", "skewed", "one place"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_points_are_the_nearest_of_all(shape: str, dims: int) -> None:
    rng = np.random.default_rng([dims, len(shape)])
    for rows, count, squares, root in (
        *((0, 1, False, False), (7, 3, True, False), (40, 100, True, True)),
        *((3000, 5, True, True), (3000, 40, False, False)),
    ):
        points, probes = drawn(rng, rows, dims, shape), drawn(rng, 120, dims, shape)
        keys, of_probes = rng.integers(0, 3, len(points)), rng.integers(-1, 4, 120)
        weights = rng.choice([0.5, 1.0, 3.0], dims)
        tested = rng.integers(-5, 6, (len(points), 2))
        low, high = rng.integers(-9, 3, (120, 2)), rng.integers(-2, 9, (120, 2))
        searched = Points(points, keys, tested, weights, squares=squares, root=root, threads=2)
        found, distance, number = searched.nearest(probes, of_probes, low, high, count)
        gaps = np.abs(points[None] - probes[:, None])
        parts = weights * (gaps * gaps if squares else gaps)
        far = parts[..., 0]
        for at in range(1, dims):
            far = far + parts[..., at]
        far = np.sqrt(far) if root else far
        is_met = (keys == of_probes[:, None]) & (of_probes[:, None] >= 0)
        is_met &= ((tested >= low[:, None]) & (tested <= high[:, None])).all(axis=2)
        for p in range(120):
            met = np.flatnonzero(is_met[p])
            wanted = met[np.lexsort((met, far[p, met]))][:count]
            assert number[p] == len(wanted)
            assert found[p, : len(wanted)].tolist() == wanted.tolist()
            assert distance[p, : len(wanted)].tolist() == far[p, wanted].tolist()
