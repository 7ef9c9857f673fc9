"""Operators without parentheses bind as in Spark's grammar, not as sqlglot has them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock

#: Operators from the weakest to the strongest, those of a group from left to right.
LEVELS = (("|",), ("^",), ("&",), ("<<", ">>"), ("+", "-"), ("*",))
LEVEL = {sign: k for k, signs in enumerate(LEVELS) for sign in signs}


def answer(expression: str) -> object:
    row = pa.table({"t": [0], "x": [5], "y": [3]})
    text = f"SELECT {expression} AS v FROM a JOIN b ON a.t = b.t"
    return penstock.sql(text, {"a": row, "b": row}, time={"a": "t", "b": "t"})["v"][0].as_py()


def value(words: list[str]) -> int:
    """What the words say, split at the weakest operator, the one that is farthest right."""
    weakest = min((LEVEL[word] for word in words[1::2]), default=None)
    if weakest is None:
        return int(words[0])
    split = max(k for k in range(1, len(words), 2) if LEVEL[words[k]] == weakest)
    return CALCULATE[words[split]](value(words[:split]), value(words[split + 1 :]))


CALCULATE = {
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("4 | a.x ^ a.x", 4),
        ("1 ^ 3 & 2 | 4 ^ 5", 3),
        ("1 & 2 << 3", 0),
        ("a.x + 1 << 2", 24),
        ("a.x ⊕ b.y & 1", 4),
        ("4 | a.x ^ a.x < 1", False),
        ("a.x = b.x IS NULL", False),
        ("8 | 1 BETWEEN 9 AND 9", True),
        ("NOT a.x = b.y", True),
        ("- a.x ^ 1", -6),
        ("~ a.x & 7", 2),
    ],
)
def test_known_expressions(expression: str, expected: object) -> None:
    assert answer(expression) == expected


@given(st.data())
def test_random_chains(data: st.DataObject) -> None:
    signs = data.draw(st.lists(st.sampled_from(sorted(set(LEVEL) - {"<<", ">>"})), max_size=6))
    numbers = data.draw(st.lists(st.integers(0, 9), min_size=len(signs) + 1, max_size=20))
    words = [str(numbers[0])]
    for sign, number in zip(signs, numbers[1:], strict=False):
        words += [sign, str(number)]
    assert answer(" ".join(words)) == value(words)


@given(st.lists(st.sampled_from(["&", "|", "^", "<<", ">>"]), max_size=4), st.integers(0, 5))
def test_shifts_bind_before_bits(signs: list[str], number: int) -> None:
    words = [str(number)]
    for k, sign in enumerate(signs):
        words += [sign, str((number + k) % 4)]
    assert answer(" ".join(words)) == value(words)
