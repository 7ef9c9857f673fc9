"""Prepared keys of band tests as unsigned codes.

A window run fixes an encoder per test: an offset from the run's smallest key where the range is
narrow enough, ranks among its distinct keys otherwise (text, floats, wide integers). Codes keep the
order of the keys, so bounds translate exactly; bounds that no key can meet become the empty range.
Ranks take a sort, which floats are spared where codes may have 64 bits: these are about
proportional to the floats. Floats that rows are only searched by have coarse codes: neighbouring
keys may share one, and a range of codes holds all keys of a range of keys, and perhaps more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Literal

import numpy as np
import pyarrow as pa

from penstock.errors import DeviceError
from penstock.expr.columns import Vector
from penstock.plan.band import Bound
from penstock.program import empty_code, null_code
from penstock.types import INT64

from ..device.cut import spread
from ..device.storage import key_dtype
from ..rows.columns import numbered

#: How floats get codes: by rank, in 64 bits without a sort, or coarsely.
Floats = Literal["ranks", "wide", "coarse"]
#: Of wide codes, as powers of two: the largest float over a step; the largest over the least that
#: is counted in steps; and that one over the least float above 0 that has a code.
_WIDE_STEPS, _WIDE_EVEN, _WIDE_LEAST = 61, 9, 256
#: Largest float with a wide code, and room for later ones, as powers of two.
_WIDE_MOST, _WIDE_ROOM = 900, 4
#: Steps between the least and the greatest coarse code; NaN has one more.
_STEPS = 1 << 31
#: Keys whose spread says which ones are far from all others, and how many times the spread of all
#: but a hundredth of them that is.
_SAMPLED, _FAR = 1 << 12, 1 << 14
#: Room for later keys at either end of coarse codes, by the width of those that are there.
_COARSE_ROOM = 1 << 6
#: Texts of which a quarter or less differ, where it pays to look for those that are one object.
_SOME_TEXTS = 1 << 8
#: Columns of distinct keys whose ranks are remembered, each on either side of equal ones.
_REMEMBERED = 16
#: Keys of which one may lie beyond the ends of coarse codes before others are made.
_BEYOND = 64


@dataclass(frozen=True)
class OffsetEncoder:
    """Code = key - base; keys lie in ``[base, base + span]``."""

    base: int
    span: int

    def keys(self, v: Vector, bits: int) -> np.ndarray:
        values = v.values.astype(np.int64, copy=False).view(np.uint64)
        codes = np.empty(len(values), key_dtype(bits))
        # The difference is right modulo 2**64 even if int64 overflows.
        np.subtract(values, np.uint64(self.base % (1 << 64)), out=codes, casting="unsafe")
        return _with_nulls(codes, v.valid, bits)

    def stretched(self, bits: int) -> OffsetEncoder:
        """An encoder with the base in the middle of this width's codes: room for later keys."""
        room = _most_span(bits)
        base = max(self.base - (room - self.span) // 2, INT64[0] + 1)
        return OffsetEncoder(base, min(room, INT64[1] - 1 - base))

    def covers(self, v: Vector) -> bool:
        """Whether every key of ``v`` has a code."""
        if v.values.dtype == object or v.values.dtype.kind not in "iub":
            return False
        known = v.known
        if not known.size:
            return True
        return self.base <= int(known.min()) and int(known.max()) <= self.base + self.span

    def lo(self, bound: Bound, v: Vector) -> np.ndarray:
        """Smallest code inside the bound, ``span + 1`` where there is none; int64."""
        return least_code(v.values, self.base, self.span, is_open=bound.open)

    def hi(self, bound: Bound, v: Vector) -> np.ndarray:
        """Largest code inside the bound, -1 where there is none; int64."""
        return greatest_code(v.values, self.base, self.span, is_open=bound.open)

    @property
    def largest(self) -> int:
        return self.span


def _most_span(bits: int) -> int:
    """Largest offset that has a code of this width; one more must still be an int64."""
    return min(null_code(bits) - 2, INT64[1] - 1)


def least_code(values: np.ndarray, base: int, span: int, *, is_open: bool) -> np.ndarray:
    """Least offset from ``base`` inside lower bounds, ``span + 1`` where there is none; int64."""
    step = int(is_open)
    return _clip(values, base - step, base + span + 1 - step) + step - base


def greatest_code(values: np.ndarray, base: int, span: int, *, is_open: bool) -> np.ndarray:
    """Largest offset from ``base`` inside upper bounds, -1 where there is none; int64."""
    step = int(is_open)
    return _clip(values, base - 1 + step, base + span + step) - step - base


def _clip(values: np.ndarray, low: int, high: int) -> np.ndarray:
    if values.dtype == object:
        return np.clip(values, low, high).astype(np.int64)
    return np.clip(values.astype(np.int64, copy=False), low, high)


@dataclass(frozen=True)
class RankEncoder:
    """Code = position among the run's distinct keys, which ``ordered`` holds ascending."""

    ordered: np.ndarray
    _ranks: dict[tuple[int, str, bool], tuple[np.ndarray, np.ndarray]] = field(
        default_factory=dict, repr=False, compare=False
    )

    def covers(self, v: Vector) -> bool:
        """Whether every key of ``v`` has a code."""
        values = _known(v)
        if not len(values):
            return True
        if not len(self.ordered) or type(values[0]) is not type(self.ordered[0]):
            return False
        at = np.minimum(self._ranked(values, "left"), len(self.ordered) - 1)
        ranked = self.ordered[at]
        # NaN is a key like any other, though it does not equal itself.
        return bool(np.all((ranked == values) | ((ranked != ranked) & (values != values))))

    def keys(self, v: Vector, bits: int) -> np.ndarray:
        values, inverse = distinct(v)
        ranks = self._ranked(values, "left").astype(key_dtype(bits))
        return _with_nulls(ranks[inverse], v.valid, bits)

    def lo(self, bound: Bound, v: Vector) -> np.ndarray:
        """Smallest code inside the bound, ``largest + 1`` where there is none; int64."""
        return self._low(bound, distinct(v))

    def hi(self, bound: Bound, v: Vector) -> np.ndarray:
        """Largest code inside the bound, -1 where there is none; int64."""
        return self._high(bound, distinct(v))

    def both(self, bound: Bound, v: Vector) -> tuple[np.ndarray, np.ndarray]:
        """:meth:`lo` and :meth:`hi` of one bound."""
        values = distinct(v)
        return self._low(bound, values), self._high(bound, values)

    def _low(self, bound: Bound, distinct: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        return self._search(bound, distinct, "right" if bound.open else "left")

    def _high(self, bound: Bound, distinct: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        return self._search(bound, distinct, "left" if bound.open else "right") - 1

    def _search(
        self,
        bound: Bound,
        distinct: tuple[np.ndarray, np.ndarray],
        side: Literal["left", "right"],
    ) -> np.ndarray:
        values, inverse = distinct
        return self._ranked(values, side, after_all=bound.after)[inverse]

    def _ranked(
        self, values: np.ndarray, side: Literal["left", "right"], *, after_all: bool = False
    ) -> np.ndarray:
        """Ranks of distinct values, int64; those of a column's texts are needed for each part."""
        key = id(values), side, after_all
        known = self._ranks.get(key)
        if known is None:
            find = self._after if after_all else partial(np.searchsorted, self.ordered, side=side)
            known = values, find(values)
            if len(self._ranks) >= _REMEMBERED:
                self._ranks.clear()
            if values.dtype == object:
                self._ranks[key] = known
        return known[1]

    def _after(self, prefixes: np.ndarray) -> np.ndarray:
        ranks = [
            len(self.ordered) if e is None else int(np.searchsorted(self.ordered, _one(e)))
            for e in map(after, prefixes)
        ]
        return np.array(ranks, dtype=np.int64)

    @property
    def largest(self) -> int:
        return max(len(self.ordered) - 1, 0)


@dataclass(frozen=True)
class WideEncoder:
    """Codes of 64 bits for floats, in their order: no two keys share one.

    Floats from ``2 ** (top - 9)`` to ``2 ** top`` are counted in steps of ``2 ** (top - 61)``, the
    distance between the least of them; smaller ones, down to ``2 ** (top - 265)``, one by one.
    Then come infinity and NaN. A bound that no key can be, beyond these floats or between the
    least one and 0, has a code that no key has.

    Parameters
    ----------
    top : int
        The largest float is ``2 ** top``.
    """

    top: int

    def keys(self, v: Vector, bits: int) -> np.ndarray:
        return _with_nulls(self._codes(v.values).view(np.uint64), v.valid, bits)

    def stretched(self, bits: int) -> WideEncoder:
        """An encoder with room for later keys."""
        return WideEncoder(min(self.top + _WIDE_ROOM, _WIDE_MOST))

    def covers(self, v: Vector) -> bool:
        """Whether every key of ``v`` has a code."""
        if v.values.dtype.kind != "f":
            return False
        sizes = np.abs(v.known)
        sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
        least = 2.0 ** (self.top - _WIDE_EVEN - _WIDE_LEAST)
        return not len(sizes) or bool(least <= sizes.min() and sizes.max() <= 2.0**self.top)

    def lo(self, bound: Bound, v: Vector) -> np.ndarray:
        """Smallest code inside the bound, ``largest + 1`` where there is none; int64."""
        return self._codes(v.values) + int(bound.open)

    def hi(self, bound: Bound, v: Vector) -> np.ndarray:
        """Largest code inside the bound, -1 where there is none; int64."""
        return self._codes(v.values) - int(bound.open)

    def both(self, bound: Bound, v: Vector) -> tuple[np.ndarray, np.ndarray]:
        """:meth:`lo` and :meth:`hi` of one bound."""
        codes = self._codes(v.values)
        return codes + int(bound.open), codes - int(bound.open)

    @property
    def _even(self) -> int:
        """Codes between 0 and the least float that is counted in steps."""
        return (_WIDE_LEAST << 52) + 2

    @property
    def _infinite(self) -> int:
        """Codes between 0 and infinity; the one before is that of all floats beyond the largest."""
        return self._even + (1 << _WIDE_STEPS) - (1 << _WIDE_STEPS - _WIDE_EVEN) + 2

    @property
    def largest(self) -> int:
        return 2 * self._infinite + 1

    def _codes(self, values: np.ndarray) -> np.ndarray:
        values = values.astype(np.float64, copy=False)
        sizes = np.abs(values)
        even = 2.0 ** (self.top - _WIDE_EVEN)
        # 0, floats too small for a code of their own, which no key is, and those that are counted.
        least = np.float64(2.0 ** (self.top - _WIDE_EVEN - _WIDE_LEAST))
        codes = np.maximum(sizes.view(np.int64) - (int(least.view(np.int64)) - 2), 1)
        codes[sizes == 0] = 0
        is_even = sizes >= even
        with np.errstate(over="ignore", invalid="ignore"):
            steps = np.minimum(sizes, 2.0**self.top) * 2.0 ** (_WIDE_STEPS - self.top)
            steps = steps.astype(np.int64) + (self._even - (1 << _WIDE_STEPS - _WIDE_EVEN))
        np.copyto(codes, steps, where=is_even)
        codes[sizes > 2.0**self.top] = self._infinite - 1
        codes[np.isinf(sizes)] = self._infinite
        np.negative(codes, out=codes, where=values < 0)
        codes += self._infinite
        codes[np.isnan(sizes)] = self.largest
        return codes


@dataclass(frozen=True)
class CoarseEncoder:
    """Code = (key - base) / step, rounded down; what lies beyond the ends shares their codes.

    Parameters
    ----------
    base, step : float
        Finite; ``step`` is above 0.
    """

    base: float
    step: float

    def keys(self, v: Vector, bits: int) -> np.ndarray:
        return _with_nulls(self._codes(v).astype(key_dtype(bits)), v.valid, bits)

    def stretched(self, bits: int) -> CoarseEncoder:
        """An encoder with room for later keys at either end."""
        step = self.step * (2 * _COARSE_ROOM + 1)
        base = self.base - self.step * _STEPS * _COARSE_ROOM
        return CoarseEncoder(base, step) if np.isfinite(base) and np.isfinite(step) else self

    def covers(self, v: Vector) -> bool:
        """Whether all but few keys of ``v`` have codes between the ends."""
        with np.errstate(over="ignore"):
            places = (v.known.astype(np.float64) - self.base) / self.step
        # Infinities have an end's code in any encoder.
        is_far = ((places < 0) | (places > _STEPS)) & np.isfinite(v.known)
        beyond = np.count_nonzero(is_far)
        return bool(beyond * _BEYOND <= len(places))

    def lo(self, bound: Bound, v: Vector) -> np.ndarray:
        """Code of the bound: that of no key inside it is smaller; int64."""
        return self._codes(v)

    def hi(self, bound: Bound, v: Vector) -> np.ndarray:
        """Code of the bound: that of no key inside it is larger; int64."""
        return self._codes(v)

    def _codes(self, v: Vector) -> np.ndarray:
        # Each of these steps keeps the order, rounding included.
        with np.errstate(over="ignore"):
            places = v.values.astype(np.float64)
            places -= self.base
            places /= self.step
        np.clip(places, 0, _STEPS, out=places)
        places[np.isnan(places)] = _STEPS + 1
        return places.astype(np.int64)

    @property
    def largest(self) -> int:
        return _STEPS + 1


Encoder = OffsetEncoder | RankEncoder | WideEncoder | CoarseEncoder


def _one(value: bytes) -> np.ndarray:
    out = np.empty((), dtype=object)
    out[()] = value
    return out


def after(prefix: bytes) -> bytes | None:
    """The first text after all that start with ``prefix``; None if there is none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None


def _addresses(values: np.ndarray) -> np.ndarray:
    """Addresses of the objects of an array, as int64; they stay as long as its objects."""
    values = np.ascontiguousarray(values)
    view = values.__array_interface__ | {"typestr": "<i8", "descr": [("", "<i8")]}
    return np.array(SimpleNamespace(__array_interface__=view))


def distinct(v: Vector) -> tuple[np.ndarray, np.ndarray]:
    """Distinct values, ascending, and the index of each row's value among them.

    Of texts that are numbered some may be no row's.
    """
    return _numbered(v.values) if v.texts is None else v.texts


def _known(v: Vector) -> np.ndarray:
    """Distinct values that are not NULL, ascending."""
    if v.texts is None:
        return _numbered(v.known)[0]
    names, place = v.texts
    is_used = np.zeros(len(names), bool)
    is_used[place if v.valid is None else place[v.valid]] = True
    return names if is_used.all() else names[is_used]


def _numbered(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct values and indices, as :func:`distinct` gives them.

    Text is ordered by its UTF-8 bytes, floats with NaN last and -0.0 equal to 0.0.
    """
    if values.dtype == object and values.size and isinstance(values.flat[0], str | bytes):
        # Texts that were read together are one object where they are equal.
        addresses = _addresses(values)
        sample = addresses[:: len(addresses) // _SOME_TEXTS + 1]
        if len(addresses) > _SOME_TEXTS and len(np.unique(sample)) * 4 <= len(sample):
            objects = pa.array(addresses).dictionary_encode()
            at = objects.indices.to_numpy()
            rows = np.empty(len(objects.dictionary), np.int64)
            rows[at] = np.arange(len(at))
            names, place = _numbered(values[rows])
            return names, place[at]
        text = pa.binary() if isinstance(values.flat[0], bytes) else pa.string()
        return numbered(pa.array(list(values), text))
    if values.dtype.kind == "f":
        values = values + values.dtype.type(0)  # -0.0 + 0 is 0.0
    return np.unique(values, return_inverse=True)


def _with_nulls(codes: np.ndarray, valid: np.ndarray | None, bits: int) -> np.ndarray:
    if valid is not None:
        codes = np.where(valid, codes, codes.dtype.type(null_code(bits)))
    return codes


def _coarse(known: np.ndarray) -> CoarseEncoder:
    """Codes of floats, also of ones of which a few lie far from all others."""
    sample = known[spread(0, len(known), _SAMPLED)].astype(np.float64)
    sample = np.sort(sample[np.isfinite(sample)])
    if not len(sample):
        return CoarseEncoder(0.0, 1.0)
    finite = known[np.isfinite(known)]
    low, high = float(finite.min()), float(finite.max())
    near, far = (float(sample[place]) for place in (len(sample) // 200, -1 - len(sample) // 200))
    # Halves, since the difference of two floats may be none.
    if reach := (far / 2 - near / 2) * _FAR:
        low, high = max(low, near - reach), min(high, far + reach)
    step = high / _STEPS - low / _STEPS
    return CoarseEncoder(low, max(step, float(np.finfo(np.float64).tiny)))


def _wide(v: Vector) -> WideEncoder | None:
    """Wide codes that cover some floats, if there are."""
    sizes = np.abs(v.known)
    largest = float(np.max(sizes, where=np.isfinite(sizes), initial=2.0**-_WIDE_MOST))
    encoder = WideEncoder(math.frexp(largest)[1])
    return encoder if encoder.top <= _WIDE_MOST and encoder.covers(v) else None


def fit(v: Vector, widest: int, *, floats: Floats = "ranks") -> Encoder:
    """Encoder for the keys of one test in a window run.

    Parameters
    ----------
    v : Vector
        Keys; conditions count as 1 where TRUE, else 0.
    widest : int
        Widest code the device offers, in bits.
    floats : str
        How floats get codes; "wide" codes, where there are 64 bits.

    Raises
    ------
    DeviceError
        The run holds more distinct keys than the device has codes.
    """
    known = v.values if v.texts is not None else v.known
    if known.dtype.kind in "iu" and known.size:
        low, high = int(known.min()), int(known.max())
        # One above and one below must still be int64, since bounds are clamped to them.
        inside = INT64[0] < low and high < INT64[1]
        if inside and high - low <= _most_span(widest):
            return OffsetEncoder(low, high - low)
    elif known.dtype.kind in "iu":
        return OffsetEncoder(0, 0)
    if known.dtype.kind == "f":
        if floats == "coarse":
            return _coarse(known)
        if floats == "wide" and widest == 64 and (wide := _wide(v)) is not None:
            return wide
    ordered = _known(v)
    if len(ordered) > null_code(widest) - 1:
        raise DeviceError(
            f"a window run holds {len(ordered)} distinct keys, more than codes of {widest} bits; "
            "use wider keys or a shorter window"
        )
    return RankEncoder(ordered)


def floats_of(*, searches: bool) -> Floats:
    """How floats get codes on devices that search, or do not: hardware compares narrow keys."""
    return "wide" if searches else "ranks"


def width_for(encoders: Sequence[Encoder], widths: Sequence[int]) -> int:
    """The narrowest width whose codes hold every encoder's keys."""
    largest = max(e.largest for e in encoders)
    return next(w for w in widths if largest <= null_code(w) - 2)


def bound_codes(
    encoder: Encoder,
    lows: Sequence[tuple[Bound, Vector]],
    highs: Sequence[tuple[Bound, Vector]],
    possible: np.ndarray,
    bits: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Codes ``lo``, ``hi`` per stream tuple; the canonical empty range where nothing can match.

    Parameters
    ----------
    lows, highs : sequence of (Bound, Vector)
        The test's bounds and their stream-side values.
    possible : ndarray of bool
        False where a stream-side condition already fails.
    """
    rows = len(possible)
    lo = np.zeros(rows, dtype=np.int64)
    hi = np.full(rows, encoder.largest, dtype=np.int64)
    is_one = len(lows) == len(highs) == 1 and lows[0][0] == highs[0][0]
    if isinstance(encoder, RankEncoder | WideEncoder) and is_one and lows[0][1] is highs[0][1]:
        lo, hi = encoder.both(*lows[0])
    else:
        for bound, v in lows:
            np.maximum(lo, encoder.lo(bound, v), out=lo)
        for bound, v in highs:
            np.minimum(hi, encoder.hi(bound, v), out=hi)
    for _, v in (*lows, *highs):
        possible = possible if v.valid is None else possible & v.valid
    possible = possible & (lo <= hi)
    dtype = key_dtype(bits)
    empty = dtype.type(empty_code(bits))
    # Outside ``possible`` a bound may be no code; its cast is not used.
    return np.where(possible, lo.astype(dtype), empty), np.where(possible, hi.astype(dtype), empty)
