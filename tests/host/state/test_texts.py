"""Texts by code."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from penstock.expr.columns import Vector
from penstock.host.keys.hashing import hash_keys
from penstock.host.state.texts import Texts


def test_the_empty_text_is_there_from_the_start():
    texts = Texts()
    assert len(texts) == 1
    assert texts.encode(pa.array([None, "", "", None])).tolist() == [0, 0, 0, 0]
    assert len(texts) == 1
    assert texts.hashes[0] == hash_keys([Vector(np.array([""], object))], 1)[0][0]


@pytest.mark.parametrize("dtype", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_codes_are_those_of_distinct_texts(dtype: pa.DataType):
    rng = np.random.default_rng(1)
    letters = [bytes(rng.integers(97, 100, rng.integers(0, 12)).tolist()) for _ in range(3000)]
    is_text = pa.types.is_string(dtype) or pa.types.is_large_string(dtype)
    values = [one.decode() if is_text else one for one in letters]
    array = pa.array(values, dtype)
    texts = Texts()
    codes = np.concatenate([texts.encode(array.slice(0, 7)), texts.encode(array.slice(7))])
    assert len({*zip(codes.tolist(), values, strict=True)}) == len(set(values))
    assert len(texts) == len({*values, values[0][:0]})
    assert texts.array(codes, None, dtype).equals(array)
    valid = rng.random(len(codes)) < 0.5
    expected = [value if known else None for value, known in zip(values, valid, strict=True)]
    assert texts.array(codes, valid, dtype).to_pylist() == expected


def test_hashes_are_those_of_the_house():
    values = ["", "a", "eight by", "nine byte", "seventeen bytes..", "ünï" * 9]
    texts = Texts()
    codes = texts.encode(pa.array(values))
    expected = hash_keys([Vector(np.array(values, object))], len(values))[0]
    assert texts.hashes[codes].tolist() == expected.tolist()


def test_a_table_of_some_of_the_texts():
    texts = Texts()
    codes = texts.encode(pa.array([f"text {n}" for n in range(200)]))
    kept = np.array([0, *codes[::3].tolist()])
    fewer = texts.only(kept)
    assert fewer.values(np.arange(len(kept)), pa.string()).equals(texts.values(kept, pa.string()))
    assert fewer.content_bytes == texts.bytes_of(kept) < texts.content_bytes
    assert fewer.encode(pa.array(["text 3", "new"])).tolist() == [2, len(kept)]
