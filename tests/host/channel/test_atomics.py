"""Loads and stores that other processes see in order: what they do, and what they compile to."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numba import njit, types

from penstock.host.channel import atomics

WORDS = types.Array(types.uint64, 1, "C")
FORMS = {
    "load_acquire": (
        types.uint64(WORDS, types.int64),
        [r"load atomic i64, .* acquire, align 8"],
    ),
    "store_release": (
        types.void(WORDS, types.int64, types.int64),
        [r"store atomic i64 .* release, align 8"],
    ),
    "announce": (
        types.void(WORDS, types.int64),
        [r"atomicrmw xchg .* seq_cst", r"fence seq_cst"],
    ),
    "take_announced": (
        types.boolean(WORDS, types.int64),
        [r"fence seq_cst", r"load atomic i64, .* acquire", r"atomicrmw xchg .* seq_cst"],
    ),
}


def test_words_are_loaded_and_stored():
    words = np.zeros(4, np.uint64)
    atomics.store_release(words, 2, (1 << 62) + 1)
    assert words.tolist() == [0, 0, (1 << 62) + 1, 0]
    assert atomics.load_acquire(words, 2) == (1 << 62) + 1
    words[3] = (1 << 64) - 1
    assert atomics.load_acquire(words, 3) == (1 << 64) - 1


def test_an_announcement_is_taken_once():
    words = np.zeros(2, np.uint64)
    assert not atomics.take_announced(words, 1)
    atomics.announce(words, 1)
    assert words.tolist() == [0, 1]
    assert atomics.take_announced(words, 1)
    assert not atomics.take_announced(words, 1)
    assert words.tolist() == [0, 0]


@pytest.mark.parametrize("name", FORMS)
def test_compiled_code_says_the_order(name: str):
    """On x86 plain loads and stores would do, so that only the code shows what aarch64 gets."""
    signature, patterns = FORMS[name]
    compiled = njit(getattr(atomics, name).py_func)
    compiled.compile(signature)
    (text,) = compiled.inspect_llvm().values()
    for pattern in patterns:
        assert re.search(pattern, text)
