"""Columns of text are numbered once; joins by them have DuckDB's rows."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock.expr import ops
from penstock.expr.columns import Vector
from penstock.host.keys.encoders import distinct, fit
from penstock.host.rows.columns import vector
from penstock.plan.band import Bound
from penstock.types import STRING

WORDS = ["", "a", "a\0", "b", "é", "\uffff", "z\U0001f600", *(f"w{k}" for k in range(300))]
KINDS = ["plain", "large", "view", "dictionary", "repeated", "unused", "with NULL"]


def column(rng: np.random.Generator, rows: int, words: list[str], kind: str) -> pa.Array:
    """Texts, a tenth of them NULL, in one of Arrow's forms."""
    at = rng.integers(0, len(words), rows)
    is_null = rng.random(rows) < 0.1
    plain = pa.array([None if n else words[k] for k, n in zip(at, is_null, strict=True)])
    if kind in ("repeated", "unused"):
        copies = 1 + (kind == "repeated")
        names = words * copies + ["no row's"]
        numbers = at + len(words) * rng.integers(0, copies, rows)
        return pa.DictionaryArray.from_arrays(pa.array(numbers, mask=is_null), pa.array(names))
    if kind == "with NULL":
        numbers = pa.array(np.where(is_null, len(words), at))
        return pa.DictionaryArray.from_arrays(numbers, pa.array([*words, None]))
    if kind == "dictionary":
        return plain.dictionary_encode()
    return plain.cast({"large": pa.large_string(), "view": pa.string_view()}.get(kind, plain.type))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "view"])
def test_numbers_stand_for_the_texts(kind):
    rng = np.random.default_rng(1)
    array = column(rng, 1000, WORDS, kind)
    plain = array.cast(pa.string()).to_pylist()
    for low, high in ((0, 1000), (300, 600), (999, 1000), (5, 5)):
        v, wanted = vector(array.slice(low, high - low), None, "t.k"), plain[low:high]
        for part in (v, v.at(np.arange(high - low)[::-1]), v.between(1, high - low)):
            names, place = distinct(part)
            assert list(names) == sorted(set(names))
            known = zip(part.values, place, part.is_known, strict=True)
            assert all(names[k] == text.encode() for text, k, is_known in known if is_known)
        assert [x if k else None for x, k in zip(v.values, v.is_known, strict=True)] == wanted


def test_texts_of_a_column_are_numbered_and_ranked_once():
    rng = np.random.default_rng(2)
    window, stream = (
        vector(column(rng, 1000, WORDS[k:], "plain").drop_null(), None, "t.k") for k in (0, 3)
    )
    assert window.texts is not None
    assert stream.texts is not None
    encoder, bound = fit(window, 32), Bound(ops.column("s", "k", STRING), open=False)
    for low in range(0, 800, 100):
        part = stream.between(low, low + 100)
        assert part.texts is not None
        assert part.texts[0] is stream.texts[0]
        lo, hi = encoder.lo(bound, part), encoder.hi(bound, part)
        keys = encoder.keys(window, 32)
        plain = Vector(part.values)
        assert np.array_equal(lo, encoder.lo(bound, plain))
        assert np.array_equal(hi, encoder.hi(bound, plain))
        meets = (lo[:, None] <= keys) & (keys <= hi[:, None])
        assert np.array_equal(meets, part.values[:, None] == window.values)


def test_names_of_no_row_are_no_keys():
    array = pa.DictionaryArray.from_arrays([1, 2, None] * 100, ["a", "b", "c", "d"])
    v = vector(array, None, "t.k")
    assert list(fit(v, 32).ordered) == [b"b", b"c"]
    assert list(fit(v.at(np.array([0, 2])), 32).ordered) == [b"b"]


JOINS = [
    "FROM l JOIN r ON l.k = r.k AND l.s <= r.e AND r.s <= l.e",
    "FROM l LEFT JOIN r ON l.k < r.k AND l.k > 'b' AND l.s <= r.e AND r.s <= l.e",
    "FROM l JOIN r ON l.k LIKE 'w1%' AND r.k <> l.k AND l.s <= r.e AND r.s <= l.e",
    "FROM l JOIN r ON upper(l.k) = upper(r.k) AND l.s <= r.e AND r.s <= l.e",
    "FROM l ASOF LEFT JOIN r ON l.k = r.k AND l.s >= r.s",
]


@pytest.mark.parametrize("seed", range(len(JOINS)))
def test_joins_by_texts(seed):
    for round_ in range(2):
        rng = np.random.default_rng((seed, round_))
        tables = {}
        for name in ("l", "r"):
            words = list(rng.permutation(WORDS)[: rng.choice([3, 200])])
            rows = int(rng.choice([0, 300, 1500], p=[0.1, 0.2, 0.7]))
            start = rng.permutation(2 * rows)[:rows]
            tables[name] = pa.table(
                {
                    "k": column(rng, rows, words, str(rng.choice(KINDS))),
                    "s": start,
                    "e": start + rng.integers(0, 40, rows),
                }
            )
        sql = f"SELECT l.s AS a, l.k AS b, r.s AS c, r.k AS d {JOINS[seed]}"
        with duckdb.connect() as db:
            for name, table in tables.items():
                k = table["k"].cast(pa.string())
                db.register(name, table.set_column(0, "k", k))
            wanted = db.execute(sql).fetchall()
        found = penstock.sql(sql, tables).to_pylist()
        assert sorted(map(str, wanted)) == sorted(str(tuple(row.values())) for row in found)
