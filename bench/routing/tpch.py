"""Columns of TPC-H whose foreign keys follow Zipf's law, as streams of two joins.

The queries are those of Fang, Wang, Zhang, Zhou (2017), section 5: an equi-join of suppliers with
line items, and a band join of line items with each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.sim.workloads.draws import draw, zipf_cdf

#: Rows of a scale factor of 1.
_SUPPLIERS, _ORDERS, _LINES = 10_000, 1_500_000, 6_000_000
#: Of the line items: those shipped by truck; those without instructions and of more than 48.
_TRUCK, _BULK = 1 / 7, 1 / 4 * 2 / 50


@dataclass(frozen=True, eq=False)
class KeyStreams:
    """Keys of two streams, in the order of arrival.

    Parameters
    ----------
    left, right : ndarray of int64
        Numbers below ``keys``.
    keys : int
    band : int
        Rows match where their keys differ by at most this.
    """

    left: np.ndarray
    right: np.ndarray
    keys: int
    band: int


def zipf_keys(
    keys: int, exponent: float, rows: int, rng: np.random.Generator, *, shuffled: bool = True
) -> np.ndarray:
    """Keys drawn by Zipf's law; which keys are frequent is random, if they are shuffled."""
    ranks = draw(rng, zipf_cdf(keys, exponent), rows)
    return rng.permutation(keys)[ranks] if shuffled else ranks


def suppliers(scale: float, exponent: float, seed: int) -> KeyStreams:
    """EQ5: suppliers, joined with nation and region beforehand, and line items, by suppkey."""
    rng = np.random.default_rng([seed, 5])
    keys = max(1, round(_SUPPLIERS * scale))
    lines = zipf_keys(keys, exponent, round(_LINES * scale), rng)
    return KeyStreams(rng.permutation(keys), lines, keys, 0)


def orders(scale: float, exponent: float, seed: int) -> KeyStreams:
    """B_NCI: line items shipped by truck, and bulky ones, whose orderkeys differ by at most 1."""
    rng = np.random.default_rng([seed, 6])
    keys, lines = max(1, round(_ORDERS * scale)), _LINES * scale
    left, right = (round(lines * share) for share in (_TRUCK, _BULK))
    # One permutation, so that frequent keys are those of both streams.
    names = rng.permutation(keys)
    both = zipf_keys(keys, exponent, left + right, rng, shuffled=False)
    both = names[both]
    return KeyStreams(both[:left], both[left:], keys, 1)
