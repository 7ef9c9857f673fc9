"""Prepared keys: the program over them equals the predicate, in both forms and directions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.errors import QueryError
from penstock.expr import ops
from penstock.expr.columns import evaluate_columns
from penstock.expr.node import Expr, walk
from penstock.host.device.storage import storage_dtype
from penstock.host.devices.cpu.interpreted import key_vector
from penstock.host.keys.prepare import Layout, layout, stream_values, window_keys
from penstock.plan.forms import JoinForm, join_form
from penstock.plan.simplify import simplify
from penstock.program import BandProgram, GeneralProgram
from penstock.types import STRING, int_of
from tests.kit.effort import examples
from tests.penstock.kit.dags import Dags, vector
from tests.penstock.kit.reference import evaluate
from tests.penstock.test_rewrite_band import Bands

SEEDS = st.integers(0, 1 << 32)
WIDTHS = (16, 32, 64)


class Sides:
    """Rows of both sides and what a predicate says of each pair."""

    def __init__(self, dags: Dags, predicate: Expr, stream_rows: int = 5, rows: int = 7) -> None:
        self.types = dags.columns()
        self.rows = {"l": [dags.row() for _ in range(rows)], "r": [dags.row() for _ in range(rows)]}
        self.predicate = predicate

    def columns(self, side: str, rows: slice = slice(None)) -> dict:
        chosen = self.rows[side][rows]
        return {
            key: vector([row[key] for row in chosen], dtype)
            for key, dtype in self.types.items()
            if key[0] == side
        }

    def expected(self, window: str, wanted: slice = slice(None)) -> np.ndarray:
        stream = "lr".replace(window, "")
        return np.array(
            [
                [
                    evaluate(self.predicate, self._pair(stream, s, w)) is True
                    for w in self.rows[window][wanted]
                ]
                for s in self.rows[stream]
            ]
        )

    def _pair(self, stream: str, s: dict, w: dict) -> dict:
        return {key: (s if key[0] == stream else w)[key] for key in self.types}


def run(made: Layout, window: list, sides: Sides, stream: str) -> np.ndarray:
    """Every pair, from the arrays a device would get."""
    count = len(sides.rows[stream])
    keys = made.stream(sides.columns(stream), count)
    arrays = made.window(window)
    rows = len(window[0].values) if window else 0
    if isinstance(made.program, BandProgram):
        outcome = np.zeros((count, rows), dtype=np.int64)
        for d in range(made.program.tests):
            lo, hi = keys.arrays[2 * d], keys.arrays[2 * d + 1]
            match = (lo[:, None] <= arrays[d][None]) & (arrays[d][None] <= hi[:, None])
            outcome |= match.astype(np.int64) << d
        table = np.array([made.program.table >> k & 1 for k in range(1 << made.program.tests)])
        found = table[outcome].astype(bool)
        assert not (found & ~keys.possible[:, None]).any()
        return found
    return _general(made.program, keys.arrays, arrays, count, rows)


def _general(program: GeneralProgram, stream: list, window: list, n: int, m: int) -> np.ndarray:
    for types, arrays in ((program.stream, stream), (program.window, window)):
        for dtype, array in zip(types, arrays, strict=True):
            assert array.dtype == storage_dtype(dtype)
    assert not any(e.type.nullable for e in walk(program.predicate))
    columns = {
        ("s", k): key_vector(np.repeat(a, m), program.stream[k]) for k, a in enumerate(stream)
    }
    columns |= {
        ("w", k): key_vector(np.tile(a, n), program.window[k]) for k, a in enumerate(window)
    }
    return evaluate_columns(program.predicate, columns, n * m).values.reshape(n, m)


def check(form: JoinForm, sides: Sides, spare_bits: int) -> None:
    window, stream = form.window, "lr".replace(form.window, "")
    count = len(sides.rows[window])
    keys = window_keys(form, sides.columns(window), count)
    values = stream_values(form, sides.columns(stream), len(sides.rows[stream]))
    made = layout(form, keys, values, WIDTHS, spare_bits)
    wanted = sides.expected(window)
    np.testing.assert_array_equal(run(made, keys, sides, stream), wanted)
    if not spare_bits:
        return
    # A layout made from a part serves the rest exactly where it says so.
    part = slice(0, 2)
    first = window_keys(form, sides.columns(window, part), 2)
    made = layout(form, first, values, WIDTHS, spare_bits)
    assert made.covers(first)
    assert made.covers_stream(values)
    if made.covers(keys):
        np.testing.assert_array_equal(run(made, keys, sides, stream), wanted)
    else:
        np.testing.assert_array_equal(run(made, first, sides, stream), sides.expected(window, part))


@settings(max_examples=examples(250), deadline=None)
@given(SEEDS, st.integers(0, 2), st.sampled_from("lr"), st.sampled_from((0, 16)))
def test_band_layouts(seed: int, depth: int, window: str, spare: int) -> None:
    bands = Bands(seed)
    predicate = simplify(bands.band_condition(depth))
    try:
        form = join_form(predicate, window)
    except QueryError:
        assume(False)
    check(form, Sides(bands, predicate), spare)


@settings(max_examples=examples(400), deadline=None)
@given(
    SEEDS,
    st.integers(1, 5),
    st.sampled_from("lr"),
    st.sampled_from((0, 16)),
    st.booleans(),
    st.booleans(),
)
def test_general_layouts(
    seed: int, depth: int, window: str, spare: int, bands: bool, text: bool
) -> None:
    kinds = ("int", "decimal", "float", "time", "bool", *(("text",) if text else ()))
    dags = Dags(seed, kinds=kinds)
    predicate = dags.condition(depth)
    if bands:
        dags = Bands(seed)
        predicate = dags.band_condition(min(depth, 3))
    predicate = simplify(predicate)
    try:
        form = join_form(predicate, window, band=False)
    except QueryError as refusal:
        if "computed from both sides" not in str(refusal):
            raise
        return
    check(form, Sides(dags, predicate), spare)


def prepared(predicate: Expr, window: str, rows: dict, spare: int = 0, band: bool = True) -> Layout:
    form = join_form(predicate, window, band=band)
    stream = "lr".replace(window, "")
    types = {e.attr: e.type for e in walk(predicate) if e.attr and e.sides and not e.args}

    def columns(side: str) -> dict:
        return {k: vector(rows[k], t) for k, t in types.items() if k[0] == side}

    keys = window_keys(form, columns(window), len(next(iter(rows.values()))))
    values = stream_values(form, columns(stream), len(next(iter(rows.values()))))
    return layout(form, keys, values, WIDTHS, spare)


X, Y = (ops.column(s, "x", int_of(32)) for s in "lr")
A, B = (ops.column(s, "x", int_of(32, nullable=False)) for s in "lr")
DISTANCE = ops.mul(ops.sub(X, Y), ops.sub(X, Y))


def test_room_for_later_values_keeps_machine_integers() -> None:
    # Bounds of 32 bits would need 66 bits for the square.
    rows = {("l", "x"): [0, 100_000], ("r", "x"): [5, -70_000]}
    distance = ops.mul(ops.sub(A, B), ops.sub(A, B))
    made = prepared(ops.le(distance, ops.const(9)), "l", rows, spare=16)
    assert all(e.type.bits <= 64 for e in walk(made.program.predicate))
    assert made.covers([vector([120_000], int_of(32))])


def test_room_for_later_values_stays_in_the_declared_type() -> None:
    amount = ops.bit_and(Y, ops.const(7))
    predicate = ops.lt(ops.shr(X, amount), ops.const(3))
    rows = {("l", "x"): [0, 1], ("r", "x"): [5, None]}
    made = prepared(predicate, "l", rows, spare=16)
    assert made.program.stream[0].hi == 7


def test_exact_bounds_and_constant_flags() -> None:
    rows = {("l", "x"): [1, 9], ("r", "x"): [-3, 4]}
    made = prepared(ops.le(DISTANCE, ops.const(9)), "l", rows)
    bounds = {(t.lo, t.hi) for t in (*made.program.window, *made.program.stream) if t.is_integral}
    assert bounds == {(1, 9), (-3, 4)}
    # No row is NULL, so nothing is left of the guards.
    assert {e.op.value for e in walk(made.program.predicate)} == {"key", "const", "-", "*", "<="}


@pytest.mark.parametrize("window", "lr")
@pytest.mark.parametrize("dtype", [STRING, int_of(64)])
def test_a_window_of_nothing_but_null(window: str, dtype) -> None:
    a, b = (ops.column(s, "t", dtype) for s in "lr")
    value = "a" if dtype is STRING else 7
    stream = "lr".replace(window, "")
    rows = {(window, "t"): [None, None], (stream, "t"): [value, None]}
    for predicate in (ops.eq(a, b), ops.ne(a, b)):
        made = prepared(predicate, window, rows)
        (lo, hi, *_) = made.stream({(stream, "t"): vector([value, None], dtype)}, 2).arrays
        for code in made.window([vector([None, None], dtype)] * made.program.tests)[0]:
            assert not ((lo <= code) & (code <= hi)).any()
