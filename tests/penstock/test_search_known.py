"""Known predicates: which keys they give, which conjuncts give none and why, floats at the edge."""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.expr import ops
from penstock.expr.columns import evaluate
from penstock.expr.node import Expr, show
from penstock.plan import search, widening
from penstock.plan.band import BandForm, Bound
from penstock.plan.forms import join_form
from penstock.plan.general import GeneralForm
from penstock.plan.plan import plan
from penstock.plan.search import Search, search_of
from penstock.program import MAX_BAND_TESTS
from penstock.query import JoinQuery, compile_query
from penstock.types import FLOAT32, FLOAT64, Type, int_of

_SURE = ("x", "y", "r")
_FIELDS = {
    **dict.fromkeys(("x", "y", "z", "k"), pa.int32()),
    **dict.fromkeys(("d", "e"), pa.decimal128(9, 2)),
    **dict.fromkeys(("v", "w"), pa.decimal128(38, 18)),
    **dict.fromkeys(("f", "g", "h"), pa.float64()),
    "s": pa.float32(),
    "u": pa.uint32(),
    "name": pa.string(),
    "code": pa.binary(),
    "yes": pa.bool_(),
    "at": pa.timestamp("ms"),
}
SCHEMA = pa.schema([pa.field(name, dtype) for name, dtype in _FIELDS.items()])
SURE = pa.schema([pa.field(name, dtype, nullable=False) for name, dtype in _FIELDS.items()])


def query(on: str, schema: pa.Schema = SCHEMA) -> JoinQuery:
    text = f"SELECT l.x FROM l JOIN r ON {on}"
    return compile_query(text, {"l": schema, "r": schema}, rows=100)


def searched(on: str, window: str = "r", schema: pa.Schema = SCHEMA) -> Search:
    return search_of(query(on, schema).predicate, window)


def bound(bounds: tuple[Bound, ...]) -> str:
    return " & ".join(("(" if b.open else "") + show(b.expr) + "+" * b.after for b in bounds)


def shown(found: Search) -> list[str]:
    return [
        f"{show(k.test.key)}: {bound(k.test.lo)} .. {bound(k.test.hi)}"
        + " implied" * k.is_implied
        + " equal" * k.is_equality
        for k in found.keys
    ]


#: A conjunct that gives no key, so that the others are searched by one by one.
_OTHER = "l.x * r.y < 5"
_WHY = "`l.x * r.y` mixes both sides"

KEYS = {
    "l.k = r.k": ["r.k: l.k .. l.k equal"],
    "l.name = r.name": ["r.name: l.name .. l.name equal"],
    "l.code = r.code": ["r.code: l.code .. l.code equal"],
    "l.at = r.at": ["r.at: l.at .. l.at equal"],
    "l.f = r.f": ["r.f: l.f .. l.f equal"],
    "l.d = r.e + 1": ["r.e: l.d - 100 .. l.d - 100 equal"],
    # Differences of 39 digits, which are rounded.
    "abs(l.v - r.w) < 0.5": ["r.w: l.v - 499999999999999994 .. l.v + 499999999999999994"],
    "l.yes = r.yes": [
        "case when r.yes then 1 when not r.yes then 0 else NULL end: "
        "case when l.yes then 1 when not l.yes then 0 else NULL end .. "
        "case when l.yes then 1 when not l.yes then 0 else NULL end equal"
    ],
    "l.k = r.k AND l.name = r.name": [
        "r.k: l.k .. l.k equal",
        "r.name: l.name .. l.name equal",
    ],
    "r.x BETWEEN l.y AND l.z": ["r.x: l.y .. l.z"],
    "l.x - r.x BETWEEN -5 AND l.z": ["r.x: l.x + (-l.z) .. l.x + 5"],
    "abs(l.x - r.x) <= l.z": ["r.x: (-l.z) + l.x .. l.z + l.x"],
    "abs(l.x + r.y - r.x) <= 9": ["r.x + (-r.y): l.x - 9 .. l.x + 9"],
    "NOT abs(l.x - r.x) > 5": ["r.x: l.x - 5 .. l.x + 5"],
    "abs(l.x - r.x) + abs(l.y - r.y) < 6": [
        "r.x + r.y: (l.x + l.y) - 5 .. (l.x + l.y) + 5",
        "r.x + (-r.y): (l.x + (-l.y)) - 5 .. (l.x + (-l.y)) + 5",
    ],
    "r.x >= l.y - 1 AND r.x < l.z + 1": ["r.x: l.y - 1 .. l.z"],
    "r.f >= l.f - 1 AND r.f < l.f + 1": ["r.f: l.f - 1.0 .. (l.f + 1.0"],
    "startswith(r.name, l.name)": ["r.name: l.name .. (l.name+"],
    "l.u ^ r.u < 256": ["r.u >> 8: l.u >> 8 .. l.u >> 8 equal"],
    "r.x < r.y AND l.k = r.k": ["r.k: l.k .. l.k equal", "r.x < r.y: 1 .. 1 equal"],
}


@pytest.mark.parametrize("on", KEYS)
def test_keys_of_conjuncts_that_are_bands(on: str) -> None:
    found = searched(f"{on} AND {_OTHER}")
    assert isinstance(join_form(query(f"{on} AND {_OTHER}").predicate, "r").form, GeneralForm)
    if "+ r.y - r.x" in on or "abs(l.x - r.x) + abs" in on:
        assert len(found.keys) == len(KEYS[on])  # sums have no fixed order of terms
    else:
        assert shown(found) == KEYS[on]
    assert not any(key.is_implied for key in found.keys)
    assert [why for _, why in found.refused()] == [_WHY]


IMPLIED = {
    "abs(l.v - r.w) < l.d": [
        "r.w: (l.v + (l.d * -10000000000000000)) + 5 .. "
        "(l.v + (l.d * 10000000000000000)) - 5 implied"
    ],
    "(l.x - r.x) * (l.x - r.x) + (l.y - r.y) * (l.y - r.y) <= 30": [
        "r.x: l.x - 5 .. l.x + 5 implied",
        "r.y: l.y - 5 .. l.y + 5 implied",
    ],
    "(l.d - r.d) * (l.d - r.d) < 2.25": ["r.d: l.d - 149 .. l.d + 149 implied"],
    "3 * abs(l.x - r.x) + 2 * (l.y - r.y) * (l.y - r.y) <= 18": [
        "r.x * 3: (l.x * 3) - 18 .. (l.x * 3) + 18 implied",
        "r.y: l.y - 3 .. l.y + 3 implied",
    ],
    "(l.x - r.x) * (l.x - r.x) + (l.y - r.y) * (l.y - r.y) <= l.z * l.z": [
        "r.x: l.x + (-abs(l.z)) .. l.x + abs(l.z) implied",
        "r.y: l.y + (-abs(l.z)) .. l.y + abs(l.z) implied",
    ],
    "(l.x - r.x) * (l.x - r.x) + r.u <= 100": ["r.x: l.x - 10 .. l.x + 10 implied"],
    "100 >= (l.x - r.x) * (l.x - r.x) * (l.x - r.x) * (l.x - r.x)": [
        "r.x: l.x - 3 .. l.x + 3 implied"
    ],
    "abs((r.x - l.x) DIV 60) <= 2": ["r.x: l.x - 179 .. l.x + 179 implied"],
    "(l.k = r.k AND l.x < r.x) OR (l.k = r.k AND l.y * r.y > 3)": ["r.k: l.k .. l.k equal"],
    "(l.k = r.k AND l.x < r.x) OR (l.k = r.k AND l.y < r.y)": ["r.k: l.k .. l.k equal"],
}


@pytest.mark.parametrize("on", IMPLIED)
def test_keys_that_are_implied(on: str) -> None:
    found = searched(on)
    assert shown(found) == IMPLIED[on]
    for key in found.keys:
        assert key.is_implied == ("implied" in IMPLIED[on][0])


def test_a_radius_that_differs_from_row_to_row_is_bounded_by_powers_of_two() -> None:
    found = searched("(l.x - r.x) * (l.x - r.x) <= l.z")
    (key,) = found.keys
    low, high = key.test.lo[0].expr, key.test.hi[0].expr
    for z in (-5, -1, 0, 1, 2, 3, 4, 15, 16, 17, 99, (1 << 31) - 1):
        row = {c: {"x": 1000, "z": z}[c.attr[1]] for c in _columns(low)}
        size = 1000 - evaluate(low, row)
        assert evaluate(high, row) == 1000 + size
        exact = math.isqrt(z) if z >= 0 else -1
        assert exact <= size <= max(2 * exact, exact)


def _columns(expr: Expr) -> set[Expr]:
    return {e for e in _walk(expr) if e.sides and not e.args}


def _walk(expr: Expr) -> Iterator[Expr]:
    yield expr
    for arg in expr.args:
        yield from _walk(arg)


FLOATS = {
    "abs(l.f - r.f) < 0.5": {"f": 0.5},
    "l.f - r.f BETWEEN -0.5 AND CAST(0.5 AS DOUBLE)": {"f": 0.5},
    "abs(l.f - r.f) + abs(l.g - r.g) < CAST(0.5 AS DOUBLE)": {"f": 0.5, "g": 0.5},
    "(l.f - r.f) * (l.f - r.f) + (l.g - r.g) * (l.g - r.g) <= 4.0": {"f": 2, "g": 2},
    "2.0 * abs(l.f - r.f) + 0.5 * (l.g - r.g) * (l.g - r.g) <= 2.0": {"f": 1, "g": 2},
    "greatest(abs(l.f - r.f), abs(l.g - r.g)) <= 3.0": {"f": 3, "g": 3},
    "abs(l.f - r.f) < l.h": {"f": 0.25},
    "(l.f - r.f) * (l.f - r.f) + (l.g - r.g) * (l.g - r.g) <= l.h * l.h": {"f": 0.25, "g": 0.25},
    "r.f - 1.0 <= l.f AND l.f <= r.f + 1.0 AND l.x * r.y < 5": {"f": 1},
    "abs(l.s - r.s) < CAST(0.5 AS FLOAT)": {"s": 0.5},
    "abs(l.x - r.x) < CAST(2.5 AS DOUBLE)": {"x": 3},
}


@pytest.mark.parametrize("on", FLOATS)
def test_floats_are_widened_a_little(on: str) -> None:
    found = searched(on, schema=SURE)
    keys = {"".join(c.attr[1] for c in _columns(key.test.key)): key for key in found.keys}
    assert keys.keys() == FLOATS[on].keys()
    for name, key in keys.items():
        assert key.is_implied
        assert key.test.lo
        assert key.test.hi
        assert not key.is_equality
        at = {c: 7 if c.attr[1] == "x" else 0.25 if c.attr[1] == "h" else 8.5 for c in _BOTH}
        middle, size = (7, FLOATS[on][name]) if name == "x" else (8.5, FLOATS[on][name])
        slack = 0 if name == "x" else 1e-4 if name == "s" else 1e-12
        (low,), (high,) = key.test.lo, key.test.hi
        assert not low.open
        assert not high.open
        assert middle - size - slack <= evaluate(low.expr, _row(low.expr, at)) <= middle - size
        assert middle + size <= evaluate(high.expr, _row(high.expr, at)) <= middle + size + slack


def _row(expr: Expr, at: dict[Expr, Any]) -> dict[Expr, Any]:
    names = {c.attr: value for c, value in at.items()}
    return {c: names[c.attr] for c in _columns(expr)}


_BOTH = [ops.column("l", name, FLOAT64) for name in _FIELDS]

REFUSED = {
    "CASE WHEN l.x < 0 THEN l.d - r.d ELSE r.d END DIV 2 = l.x": "mixes both sides",
    "l.x < r.x OR l.y * r.y = 3": "it is an OR, which may hold in more than one way",
    "l.x <> r.x": "it is an OR, which may hold in more than one way",
    "NOT startswith(r.name, l.name)": "it may hold in more than one way",
    "abs(l.x - r.x) > 5": "it may hold in more than one way",
    "CASE WHEN l.yes THEN l.x < r.x ELSE l.y * r.y = 3 END": (
        "it is a CASE, which may hold in more than one way"
    ),
    "l.x < r.x": "it bounds `r.x` from one side only",
    "l.f < r.f": "it bounds `r.f` from one side only",
    "l.x * r.x < 5": "`l.x * r.x` mixes both sides",
    "(l.x - r.x) * (l.x - r.x) > 5": (
        "`(l.x - r.x) * (l.x - r.x)` is bounded from the other side only"
    ),
    "(l.x - r.x) * (l.x - r.x) + l.y * r.y < 5": "`l.y * r.y` may be negative",
    "l.f * r.f < 5": "`l.f * r.f` mixes both sides",
    "-5.0 <= -(l.f - r.f) * (l.f - r.f)": "mixes both sides",
    "CAST(0.5 AS DOUBLE) <= abs(l.f - r.f)": (
        "`abs(l.f - r.f)` is bounded from the other side only"
    ),
    "5.0 - (l.f - r.f) * (l.f - r.f) >= 0.0": "it bounds `r.f` from one side only",
    "abs(l.f - r.f) < r.h": ("both operands of `abs(l.f - r.f) < r.h` depend on the window's rows"),
    "(l.f - r.f) * (l.f - r.f) < l.h": (
        "`l.h` is no constant and no square, so that its root is not known"
    ),
    "(l.f - r.f) * (l.f - r.f) + l.g * r.g < 2.0": "`l.g * r.g` is not known to be of one sign",
    "greatest(abs(l.x - r.x), abs(l.y - r.y)) < 5": "skips NULL",
    "(l.x - r.x) * (l.x - r.x) <= r.z": "`r.z` depends on the window's rows",
    "l.yes": "it does not look at the window's rows",
    "startswith(l.name, r.name)": "is a band only where the window holds the text",
    "(l.x - r.x) % 7 = 0": "`(l.x - r.x) % 7` mixes both sides",
}


@pytest.mark.parametrize("on", REFUSED)
def test_reasons_of_conjuncts_without_a_key(on: str) -> None:
    found = searched(f"({on}) AND {_OTHER}")
    assert found.keys == ()
    assert found.form is None
    assert REFUSED[on] in " / ".join(why for _, why in found.refused())


def test_reasons_name_the_sides() -> None:
    found = searched(f"l.x < r.x AND {_OTHER}")
    reasons = [why for _, why in found.refused({"l": "orders", "r": "gps"})]
    assert "it bounds `gps.x` from one side only" in reasons


FORMS = (
    "l.x = r.x",
    "abs(l.x - r.x) + abs(l.y - r.y) < 500",
    "r.x BETWEEN l.y AND l.z AND l.k = r.k AND l.x < l.y",
    "l.name = r.name AND startswith(r.name, 'a')",
    "l.x < r.x",
    "l.u ^ r.u < 256",
)


@pytest.mark.parametrize("on", FORMS)
@pytest.mark.parametrize("window", ["l", "r"])
def test_an_and_of_tests_is_searched_by_its_own_form(on: str, window: str) -> None:
    predicate = query(on).predicate
    found = search_of(predicate, window)
    form = join_form(predicate, window).form
    assert isinstance(form, BandForm)
    assert found.form == form
    assert not any(key.is_implied for key in found.keys)
    assert not found.refused()


def test_keys_of_a_shared_form_name_their_conjuncts() -> None:
    found = searched("l.k = r.k AND abs(l.x - r.x) < 5 AND l.y < l.z")
    assert [show(key.conjunct) for key in found.keys] == [
        "(l.k = r.k) and (l.y < l.z)",
        "abs(l.x - r.x) < 5",
    ]


def test_at_most_eight_keys_the_equalities_first() -> None:
    a, b = ([ops.column(s, f"c{k}", int_of(32)) for k in range(12)] for s in "lr")
    bands = [ops.le(ops.absolute(ops.sub(x, y)), ops.const(5)) for x, y in zip(a, b, strict=True)]
    equal = ops.eq(a[11], b[11])
    found = search_of(ops.and_(*bands[:11], equal), "r")
    assert len(found.keys) == MAX_BAND_TESTS
    assert found.keys[0].conjunct is equal
    assert {why for _, why in found.refused()} == {"there are 8 better keys"}
    assert len(found.refused()) == 4


def test_a_condition_of_the_stream_joins_the_first_key() -> None:
    found = searched(f"l.k = r.k AND l.x < l.y AND {_OTHER}")
    (key,) = found.keys
    assert [show(c) for c in key.test.when] == ["l.x < l.y"]
    assert show(key.conjunct) == "(l.k = r.k) and (l.x < l.y)"
    assert not key.is_implied


def test_an_evaluation_has_its_search() -> None:
    made = plan(query("l.k = r.k AND l.x * r.y < 5"))
    for window in "lr":
        found = made.pairs(window).search
        assert found is search_of(made.query.predicate, window)
        assert [key.is_equality for key in found.keys] == [True]


def test_a_search_is_not_computed_before_it_is_asked_for(monkeypatch: Any) -> None:
    def fail(*args: object) -> None:
        raise AssertionError

    monkeypatch.setattr("penstock.plan.plan.search_of", fail)
    one = plan(query("l.k = r.k AND l.x * r.y < 5")).pairs("r")
    with pytest.raises(AssertionError):
        _ = one.search


# -- large conditions -----------------------------------------------------------------------------


def _column(side: str, name: str = "f", dtype: Type = FLOAT64) -> Expr:
    return ops.column(side, name, dtype)


@pytest.mark.slow
def test_deep_conditions_have_room() -> None:
    value = ops.sub(_column("l"), _column("r"))
    for _ in range(3000):
        value = ops.absolute(ops.add(value, _column("l", "g")))
    found = search_of(ops.lt(value, ops.const(1.0)), "r")
    assert found.keys == ()
    assert "operations of" in found.refused()[0][1]


@pytest.mark.parametrize("dtype", [FLOAT64, int_of(1, signed=False)])
def test_values_that_are_used_twice_at_each_level_take_no_longer(dtype: Type) -> None:
    value = ops.absolute(ops.sub(_column("l", "c", dtype), _column("r", "c", dtype)))
    total, product = value, value
    for _ in range(60):
        total = ops.add(total, total)
        product = ops.mul(product, product)
    limit = ops.const(1.0) if dtype.is_float else ops.const(1)
    assert search_of(ops.lt(total, limit), "r").refused is not None
    assert search_of(ops.lt(ops.add(product, value), limit), "r").refused is not None
    odd = ops.mul(ops.mul(product, value), product)
    assert search_of(ops.lt(odd, limit), "r").refused is not None


# -- floats at the edge ---------------------------------------------------------------------------


def kept(predicate: Expr, row: dict[Expr, Any]) -> bool:
    """Whether a match passes each test of its search; the row must be a match."""
    assert evaluate(predicate, row) is True
    found = search_of(predicate, "r")
    assert found.keys
    at = {c.attr: value for c, value in row.items()}

    def value_of(expr: Expr) -> Any:
        return evaluate(expr, {c: at[c.attr] for c in _columns(expr)})

    def inside(key: Any, limit: Bound, op: Any) -> bool:
        pair = (ops.const(key, FLOAT64), ops.const(value_of(limit.expr), FLOAT64))
        return evaluate(op(*pair)) is True

    return all(
        all(inside(value_of(k.test.key), b, lambda x, y: ops.le(y, x)) for b in k.test.lo)
        and all(inside(value_of(k.test.key), b, ops.le) for b in k.test.hi)
        for k in found.keys
    )


@pytest.fixture
def fresh() -> Iterator[None]:
    """No search that was made with other roundings is remembered."""
    search_of.cache_clear()
    yield
    search_of.cache_clear()


def _without(monkeypatch: pytest.MonkeyPatch, **changes: float) -> None:
    for name in ("_DOUBLE", "_SINGLE"):
        rounding = getattr(widening, name)
        values = {"share": rounding.share, "tiny": rounding.tiny, "most": rounding.most} | changes
        monkeypatch.setattr(widening, name, widening._Rounding(**values))
    search_of.cache_clear()


F, R = _column("l"), _column("r")
S, T = _column("l", "s", FLOAT32), _column("r", "s", FLOAT32)
D = _column("l", "d")


def test_the_rounding_of_a_difference_hides_no_match(monkeypatch: Any, fresh: None) -> None:
    """The difference is rounded down to the bound, which the key is truly beyond."""
    predicate = ops.le(ops.absolute(ops.sub(F, R)), ops.const(0.1))
    rows = []
    rng = Random(5)
    while len(rows) < 50:
        f = rng.uniform(0.11, 0.4)
        r = float(np.nextafter(f - 0.1, -1))
        if f - r <= 0.1 and r < f - 0.1:
            rows.append({F: f, R: r})
    assert all(kept(predicate, row) for row in rows)
    _without(monkeypatch, share=0.0, tiny=0.0)
    assert not all(kept(predicate, row) for row in rows)


def test_the_rounding_of_a_difference_of_float32_hides_no_match(
    monkeypatch: Any, fresh: None
) -> None:
    predicate = ops.le(ops.sub(S, T), ops.const(4.0))
    predicate = ops.and_(predicate, ops.le(ops.const(-9.0), ops.sub(S, T)))
    # The sum lies in the middle of two float32, and rounds to the even one of them.
    row = {S: 4.0, T: float(np.float32(-1e-7))}
    assert kept(predicate, row)
    monkeypatch.setattr(widening, "_SINGLE", widening._DOUBLE)
    search_of.cache_clear()
    assert not kept(predicate, row)


@pytest.mark.parametrize(("limit", "gap"), [(0.0, 1e-170), (5e-324, 2.6e-162)])
def test_a_square_that_underflows_hides_no_match(
    monkeypatch: Any, fresh: None, limit: float, gap: float
) -> None:
    u = ops.sub(F, R)
    predicate = ops.le(ops.add(ops.mul(u, u), ops.mul(D, D)), ops.const(limit))
    row = {F: 0.0, R: gap, D: 0.0}
    assert kept(predicate, row)
    _without(monkeypatch, tiny=0.0)
    assert not kept(predicate, row)


def test_a_square_of_float32_that_underflows_hides_no_match(monkeypatch: Any, fresh: None) -> None:
    u = ops.sub(S, T)
    predicate = ops.le(ops.mul(u, u), ops.const(0.0))
    row = {S: 0.0, T: float(np.float32(1e-23))}
    assert kept(predicate, row)
    monkeypatch.setattr(widening, "_SINGLE", widening._DOUBLE)
    search_of.cache_clear()
    assert not kept(predicate, row)


def test_the_rounding_of_a_product_hides_no_match(monkeypatch: Any, fresh: None) -> None:
    u, rng = ops.sub(F, R), Random(3)
    predicates = []
    for _ in range(200):
        r = rng.uniform(1, 2)
        square = ops.mul(ops.mul(ops.const(0.1), u), u)
        predicates.append((ops.le(square, ops.const(0.1 * r * r)), {F: 0.0, R: r}))
    assert all(kept(p, row) for p, row in predicates)
    _without(monkeypatch, share=0.0, tiny=0.0)
    assert not all(kept(p, row) for p, row in predicates)


def test_a_sum_of_float32_that_overflows_hides_no_match(monkeypatch: Any, fresh: None) -> None:
    total, low = ops.add(S, T), _column("l", "g")
    predicate = ops.and_(ops.le(low, total), ops.le(total, D))
    row = {S: -2e38, T: -2e38, D: -1e300, low: -math.inf}
    assert kept(predicate, row)
    monkeypatch.setattr(widening, "_held_back", lambda high, dtype: ops.to_float(high))
    search_of.cache_clear()
    assert not kept(predicate, row)


def test_a_bound_that_is_nan_lets_nan_pass(monkeypatch: Any, fresh: None) -> None:
    u = ops.sub(F, R)
    predicate = ops.and_(ops.le(ops.const(-1.0), u), ops.le(u, D))
    row = {F: 1.0, R: math.nan, D: math.nan}
    assert kept(predicate, row)
    monkeypatch.setattr(search, "_guarded", lambda bound, guards: bound)
    search_of.cache_clear()
    assert not kept(predicate, row)


@pytest.mark.parametrize(
    ("f", "r", "d"),
    [
        (math.inf, 1.0, math.inf),
        (math.inf, -math.inf, math.inf),
        (1.0, math.inf, math.inf),
        (1.0, -math.inf, math.inf),
        (math.nan, 5.0, math.nan),
        (5.0, math.nan, math.nan),
        (math.inf, math.inf, math.nan),
        (1e308, -1e308, math.inf),
        (-1e308, 1e308, math.inf),
        (0.0, -0.0, 0.0),
        (-0.0, 0.0, -0.0),
    ],
)
def test_strange_numbers_are_let_through(f: float, r: float, d: float) -> None:
    assert kept(ops.le(ops.absolute(ops.sub(F, R)), D), {F: f, R: r, D: d})


def test_a_square_of_a_radius_that_overflows_bounds_nothing() -> None:
    u = ops.sub(F, R)
    predicate = ops.le(ops.mul(u, u), ops.mul(D, D))
    assert kept(predicate, {F: 0.0, R: 1e300, D: 1e200})
    assert kept(predicate, {F: 0.0, R: math.inf, D: 1e200})


def test_least_says_nothing_of_nan() -> None:
    """LEAST is a number where only one of its values is NaN."""
    limit = ops.const(5.0)
    a, b = ops.column("r", "a", FLOAT64.as_nullable(False)), D
    low = ops.least(a, ops.column("l", "b", FLOAT64.as_nullable(False)))
    predicate = ops.and_(ops.le(ops.neg(low), limit), ops.le(b, ops.add(ops.const(1.0), a)))
    found = search_of(predicate, "r")
    assert found.keys == ()


def test_integers_beyond_64_bits_stay_exact() -> None:
    big = int_of(64)
    a, b = (ops.column(s, "big", big) for s in "lr")
    u = ops.sub(a, b)
    found = search_of(ops.le(ops.mul(u, u), ops.const(1 << 130)), "r")
    (key,) = found.keys
    row = {a: big.hi}
    assert evaluate(key.test.hi[0].expr, row) == big.hi + (1 << 65)
    assert evaluate(key.test.lo[0].expr, row) == big.hi - (1 << 65)


def test_bounds_from_one_side_are_keys_beside_others() -> None:
    """Two of them, or one beside a key with both bounds; alone, one leaves half of the rows."""
    for on, keys, halves in (
        ("l.x < r.x AND l.y >= r.y", 0, 2),
        ("l.k = r.k AND l.x < r.x", 1, 1),
        ("l.k = r.k AND l.x < r.x AND l.y >= r.y", 1, 2),
        ("l.x < r.x", 0, 0),
    ):
        found = searched(f"{on} AND {_OTHER}")
        assert (len(found.keys), len(found.halves)) == (keys, halves), on
        assert not any(key.is_implied for key in found.halves)
        refused = "from one side only" in " / ".join(why for _, why in found.refused())
        assert refused == (not halves), on
