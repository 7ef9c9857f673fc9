"""The laws of folds: merges commute and associate, zero is their identity, adding is merging."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import QueryError
from penstock.expr import ops
from penstock.host.state.contributions import ColumnContributions
from penstock.host.state.entry_layout import EntryLayout
from penstock.host.state.folds import GroupFold, Merge, words_for
from penstock.host.state.merger import EntryMerger
from penstock.host.state.store import LogStore
from penstock.host.state.texts import Texts
from penstock.plan.group_query import GroupQuery
from penstock.query.compiler import compile_select

SCHEMA = pa.schema(
    [
        ("t", pa.timestamp("ms")),
        ("x", pa.int64()),
        ("wide", pa.decimal128(38, 0)),
        ("f", pa.float64()),
        ("name", pa.string()),
    ]
)
#: Every fold of the table; floats are small integers and halves, whose sums are exact.
FOLDS = (
    "count(*)",
    "count(x)",
    "sum(x)",
    "sum(wide)",
    "sum(f)",
    "avg(x)",
    "avg(f)",
    "min(x)",
    "max(x)",
    "min(wide)",
    "max(wide)",
    "min(f)",
    "max(f)",
    "min_by(name, x)",
    "max_by(name, x)",
    "min_by(wide, f)",
    "max_by(f, wide)",
)
_INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
_ROW = st.fixed_dictionaries(
    {
        "t": st.one_of(st.none(), st.integers(-2, 2)),
        "x": st.one_of(st.none(), st.integers(-2, 2), _INT64),
        "wide": st.one_of(st.none(), st.integers(-2, 2), st.integers(-(10**38) + 1, 10**38 - 1)),
        "f": st.one_of(
            st.none(),
            st.sampled_from([float("nan"), -0.0, 0.0]),
            st.integers(-8, 8).map(lambda n: n / 2),
        ),
        "name": st.one_of(st.none(), st.sampled_from(["", "a", "b"])),
    }
)
_ROWS = st.lists(_ROW, max_size=6)


class Folding:
    """Entries of one group, folded by the loops."""

    def __init__(self, *aggregates: str, compiled: bool) -> None:
        shown = ", ".join(f"{one} AS a{k}" for k, one in enumerate(aggregates))
        query = compile_select(f"SELECT {shown} FROM s", {"s": SCHEMA}, time={"s": "t"})
        assert isinstance(query, GroupQuery)
        self.layout = EntryLayout((), None, query.aggregation.aggregates, SCHEMA)
        self.columns = ColumnContributions(query, self.layout)
        self.merger = EntryMerger(self.layout)
        if compiled:
            self.merger.compile()
        self.texts = Texts()
        self.count = 0

    def contributions(self, rows: list[dict]) -> np.ndarray:
        """One entry per row; rows are numbered on, so no two have one place."""
        types = {"t": pa.int64(), "wide": pa.decimal128(38, 0)}
        columns = [
            pa.array([row[f.name] for row in rows], types.get(f.name, f.type)).cast(f.type)
            for f in SCHEMA
        ]
        batch = pa.record_batch(columns, schema=SCHEMA)
        self.count += len(rows)
        return self.columns.make(batch, self.texts, self.count - len(rows)).entries

    def merged(self, *entries: np.ndarray) -> np.ndarray:
        """The one entry that they make; zero of none."""
        store = LogStore(self.merger)
        for some in entries:
            some = some.reshape(-1, self.layout.words)
            store.merge(np.ascontiguousarray(some).reshape(-1), 0, len(some), self.texts.hashes)
        return store.entries[0].copy() if store.count else self.layout.zero.copy()


@pytest.fixture(scope="module", params=[False, True], ids=["by tables", "compiled"])
def foldings(request: pytest.FixtureRequest) -> dict[str, Folding]:
    if not request.param:
        return {one: Folding(one, compiled=False) for one in FOLDS}
    # In one loop, which compiles once: by tables each is alone, so that a failure names it.
    return {"all": Folding(*FOLDS, compiled=True)}


@settings(max_examples=60, deadline=None)
@given(a=_ROWS, b=_ROWS, c=_ROWS)
def test_merges_commute_and_associate(foldings: dict[str, Folding], a: list, b: list, c: list):
    for name, folding in foldings.items():
        x, y, z = (folding.merged(folding.contributions(rows)) for rows in (a, b, c))
        assert (folding.merged(x, y) == folding.merged(y, x)).all(), name
        left = folding.merged(folding.merged(x, y), z)
        assert (left == folding.merged(x, folding.merged(y, z))).all(), name


@settings(max_examples=60, deadline=None)
@given(a=_ROWS)
def test_zero_is_the_identity(foldings: dict[str, Folding], a: list):
    for name, folding in foldings.items():
        x, zero = folding.merged(folding.contributions(a)), folding.layout.zero
        assert (folding.merged(x, zero) == x).all(), name
        assert (folding.merged(zero, x) == x).all(), name


@settings(max_examples=60, deadline=None)
@given(a=_ROWS, b=_ROWS)
def test_merging_folds_is_folding_all(foldings: dict[str, Folding], a: list, b: list):
    for name, folding in foldings.items():
        x, y = folding.contributions(a), folding.contributions(b)
        parts = folding.merged(folding.merged(x), folding.merged(y))
        assert (parts == folding.merged(np.concatenate([x, y]))).all(), name


@settings(max_examples=60, deadline=None)
@given(values=st.lists(st.integers(-(10**38) + 1, 10**38 - 1), max_size=20))
def test_sums_are_exact(values: list[int]):
    folding = Folding("sum(wide)", compiled=False)
    rows = [{"t": 0, "x": 0, "wide": v, "f": 0.0, "name": ""} for v in values]
    entry = folding.merged(folding.contributions(rows))
    (place,) = folding.layout.folds
    words = entry[place.offset : place.offset + place.fold.words]
    assert int.from_bytes(words.tobytes(), "little", signed=True) == sum(values)


def test_a_merge_is_not_idempotent():
    folding = Folding("count(*)", compiled=False)
    entry = folding.contributions([{"t": 0, "x": 1, "wide": 1, "f": 1.0, "name": ""}])
    assert not (folding.merged(entry, entry) == folding.merged(entry)).all()


@pytest.mark.parametrize("merge", list(Merge))
@pytest.mark.parametrize("words", [1, 2, 4])
def test_a_zero_has_the_words_of_its_fold(merge: Merge, words: int):
    fold = GroupFold(merge, ops.const(1), ops.const(1), words, 1)
    assert len(fold.zero) == fold.total_words


def test_integers_beyond_256_bits_are_refused():
    assert [words_for(bits, "x") for bits in (1, 64, 65, 128, 129, 256)] == [1, 1, 2, 2, 4, 4]
    with pytest.raises(QueryError, match="more than 76 digits"):
        words_for(257, "sum(x)")
