"""Layouts: they turn prepared keys of a window run into the arrays of a program.

A layout that was made from some rows may not cover later ones; then the run gets a new one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.expr.columns import Columns, Vector, evaluate_all, evaluate_columns
from penstock.expr.node import Expr, walk
from penstock.expr.values import zero_of
from penstock.expr.vector import fits_int64
from penstock.plan.band import BandForm, BandTest
from penstock.plan.general import CODE_BITS, GeneralForm, KeySource
from penstock.plan.logic import zero_filled
from penstock.program import BandProgram, GeneralProgram, Program, empty_code
from penstock.types import Type, bits_for, integer

from ..device.storage import storage_dtype
from . import encoders
from .encoders import Encoder, OffsetEncoder
from .sums import Sums, column_words, sum_codes, sums_of


@dataclass(frozen=True)
class StreamKeys:
    """Arrays of a task's stream tuples, and which tuples can match at all."""

    arrays: list[np.ndarray]
    possible: np.ndarray


class Layout(ABC):
    """How the keys of one window run are encoded, and the program that fits."""

    program: Program
    #: Band tests that ask for a single code, of every tuple.
    equal: Collection[int] = frozenset()

    @abstractmethod
    def covers(self, window: Sequence[Vector]) -> bool:
        """Whether these window keys can be encoded without a new layout."""

    def covers_stream(self, stream: Sequence[Vector]) -> bool:
        """Whether stream tuples with these values can be encoded without a new layout."""
        return True

    @abstractmethod
    def window(self, window: Sequence[Vector]) -> list[np.ndarray]:
        """Device arrays of window keys."""

    @abstractmethod
    def stream(self, columns: Columns, rows: int) -> StreamKeys:
        """Device arrays of stream tuples."""


class BandLayout(Layout):
    """Codes of band tests, and a number to fold if the form has one.

    Parameters
    ----------
    spare : bool
        Whether there should be codes for later keys.
    floats : str
        How floats get codes.
    """

    def __init__(
        self,
        form: BandForm,
        window: Sequence[Vector],
        widths: Sequence[int],
        *,
        spare: bool,
        floats: encoders.Floats = "ranks",
    ) -> None:
        self.form = form
        keys = window[: len(form.tests)]
        self.payload: list[Type] = [
            integer(v.lo, v.hi, nullable=False) for v in window[len(keys) :]
        ]
        self.encoders = [encoders.fit(v, widths[-1], floats=floats) for v in keys]
        self.bits = encoders.width_for(self.encoders, widths)
        if spare:
            self.encoders = [
                e if isinstance(e, encoders.RankEncoder) else e.stretched(self.bits)
                for e in self.encoders
            ]
        payload = self.payload[0] if self.payload else None
        program = BandProgram(len(form.tests), form.table, self.bits, payload)
        self.program, self.cubes = program, program.cubes
        self.equal = frozenset(d for d, test in enumerate(form.tests) if test.is_equality)

    def covers(self, window: Sequence[Vector]) -> bool:
        keys, payload = window[: len(self.encoders)], window[len(self.encoders) :]
        is_covered = all(e.covers(v) for e, v in zip(self.encoders, keys, strict=True))
        return is_covered and _within(self.payload, payload)

    def window(self, window: Sequence[Vector]) -> list[np.ndarray]:
        keys, payload = window[: len(self.encoders)], window[len(self.encoders) :]
        arrays = [e.keys(v, self.bits) for e, v in zip(self.encoders, keys, strict=True)]
        return arrays + [_stored(v.values, t) for v, t in zip(payload, self.payload, strict=True)]

    def stream(self, columns: Columns, rows: int) -> StreamKeys:
        arrays: list[np.ndarray] = []
        alive: list[np.ndarray] = []
        empty = empty_code(self.bits)
        sums = [
            _sums(test, e, columns) for test, e in zip(self.form.tests, self.encoders, strict=True)
        ]
        words = column_words(columns, [summed for summed in sums if summed is not None])
        unsummed = [test for test, summed in zip(self.form.tests, sums, strict=True) if not summed]
        values = _stream_values(unsummed, columns, rows)
        for test, summed, encoder in zip(self.form.tests, sums, self.encoders, strict=True):
            if summed is not None and isinstance(encoder, OffsetEncoder):
                lo, hi = sum_codes(summed, encoder, words, self.bits)
            else:
                lo, hi = _bounds(test, encoder, values, rows, self.bits)
            arrays += [lo, hi]
            alive.append(lo != empty)
        possible = np.zeros(rows, dtype=bool)
        for cube in self.cubes:
            members = [alive[d] for d in range(len(alive)) if cube >> d & 1]
            possible |= np.logical_and.reduce(members) if members else True
        return StreamKeys(arrays, possible)


class GeneralLayout(Layout):
    """Values of keys as they are, and codes of text."""

    def __init__(
        self,
        form: GeneralForm,
        window: Sequence[Vector],
        stream: Sequence[Vector],
        spare_bits: int,
    ) -> None:
        self.form = form
        window = window[: len(form.window_keys)]
        self.encoders = {
            source.test: encoders.fit(v, CODE_BITS)
            for source, v in zip(form.window_keys, window, strict=True)
            if source.kind == "code"
        }
        # Room for later values must not cost machine integers: products double its bits.
        steps = [spare_bits >> k for k in range(spare_bits.bit_length())] or [0]
        for step in (*steps, steps[0]):
            self.program = self._fix_types(window, stream, step)
            if _is_narrow(self.program):
                return

    def _fix_types(
        self, window: Sequence[Vector], stream: Sequence[Vector], spare_bits: int
    ) -> GeneralProgram:
        form = self.form
        self.window_types = _key_types(form.window_keys, window, spare_bits)
        self.stream_types = _key_types(form.stream_keys, stream, spare_bits)
        constants = {}
        if not spare_bits:
            constants = _constant_flags("w", form.window_keys, window)
            constants |= _constant_flags("s", form.stream_keys, stream)
        return form.program(self.stream_types, self.window_types, constants)

    def covers(self, window: Sequence[Vector]) -> bool:
        window = window[: len(self.form.window_keys)]
        return _within(self.window_types, window) and all(
            self.encoders[source.test].covers(v)
            for source, v in zip(self.form.window_keys, window, strict=True)
            if source.kind == "code"
        )

    def covers_stream(self, stream: Sequence[Vector]) -> bool:
        return _within(self.stream_types, stream)

    def window(self, window: Sequence[Vector]) -> list[np.ndarray]:
        window = window[: len(self.form.window_keys)]
        sources = zip(self.form.window_keys, window, self.window_types, strict=True)
        return [
            _stored(self.encoders[s.test].keys(v, CODE_BITS) if s.kind == "code" else v.values, t)
            for s, v, t in sources
        ]

    def stream(self, columns: Columns, rows: int) -> StreamKeys:
        codes: dict[BandTest, tuple[np.ndarray, np.ndarray]] = {}
        tests = [source.test for source in self.form.stream_keys if source.test is not None]
        values = _stream_values(tests, columns, rows)
        arrays = []
        for source, dtype in zip(self.form.stream_keys, self.stream_types, strict=True):
            if source.test is None:
                arrays.append(_stored(key_values(source, columns, rows).values, dtype))
                continue
            if source.test not in codes:
                encoder = self.encoders[source.test]
                codes[source.test] = _bounds(source.test, encoder, values, rows, CODE_BITS)
            arrays.append(_stored(codes[source.test][source.kind == "hi"], dtype))
        return StreamKeys(arrays, np.ones(rows, dtype=bool))


def _stored(values: np.ndarray, dtype: Type) -> np.ndarray:
    # Columns may lie in memory that nobody may write to: another type to compiled kernels.
    return np.require(values, storage_dtype(dtype), "W")


def key_values(source: KeySource, columns: Columns, rows: int) -> Vector:
    """Values of a general form's key; NULL is zero, except in text that gets codes."""
    v = evaluate_columns(source.expr, columns, rows)
    if source.kind == "flag":
        return Vector(v.true)
    if source.kind == "code" or v.valid is None:
        return v
    filled = np.where(v.valid, v.values, zero_of(source.expr.type))
    return Vector(filled.astype(v.values.dtype), None, min(v.lo, 0), max(v.hi, 0))


def stream_side(test: BandTest) -> list[Expr]:
    """The expressions of a test that are evaluated on stream tuples."""
    return [*(bound.expr for bound in (*test.lo, *test.hi)), *test.when]


def _sums(test: BandTest, encoder: Encoder, columns: Columns) -> Sums | None:
    """The sums that bound a test, if their codes can be made in one pass."""
    if not isinstance(encoder, OffsetEncoder):
        return None
    sums = sums_of(test)
    return sums if sums is not None and sums.fit(columns) else None


def _stream_values(tests: Iterable[BandTest], columns: Columns, rows: int) -> dict[Expr, Vector]:
    """Values of the expressions that tests evaluate on stream tuples."""
    exprs = list(dict.fromkeys(e for test in tests for e in stream_side(test)))
    return dict(zip(exprs, evaluate_all(exprs, columns, rows), strict=True))


def _bounds(
    test: BandTest, encoder: Encoder, values: Mapping[Expr, Vector], rows: int, bits: int
) -> tuple[np.ndarray, np.ndarray]:
    """Codes of the least and the greatest key that pass a test, per stream tuple."""
    possible = np.ones(rows, dtype=bool)
    for condition in test.when:
        possible &= values[condition].true
    lows, highs = ([(b, values[b.expr]) for b in bounds] for bounds in (test.lo, test.hi))
    return encoders.bound_codes(encoder, lows, highs, possible, bits)


def _key_types(
    sources: Sequence[KeySource], values: Sequence[Vector], spare_bits: int
) -> list[Type]:
    return [_key_type(source, v, spare_bits) for source, v in zip(sources, values, strict=True)]


def _key_type(source: KeySource, v: Vector, spare_bits: int) -> Type:
    if source.test is not None:
        return source.type
    dtype = zero_filled(source.type)
    if not dtype.is_integral:
        return dtype
    lo, hi = v.lo, v.hi
    if spare_bits:
        bits = bits_for(min(lo, -1), max(hi, 0))
        bits = -(-bits // spare_bits) * spare_bits
        lo = min(lo, max(-(1 << (bits - 1)), dtype.lo))
        hi = max(hi, min((1 << (bits - 1)) - 1, dtype.hi))
    return integer(lo, hi, nullable=False)


def _is_narrow(program: GeneralProgram) -> bool:
    """Whether machine integers hold every value."""
    roots = [program.predicate] + ([] if program.value is None else [program.value])
    return all(fits_int64(e.type.lo, e.type.hi) for e in walk(*roots))


def _within(types: Sequence[Type], values: Sequence[Vector]) -> bool:
    return all(
        not t.is_integral or v.values.dtype.kind not in "iO" or (t.lo <= v.lo and v.hi <= t.hi)
        for t, v in zip(types, values, strict=True)
    )


def _constant_flags(
    side: str, sources: Sequence[KeySource], values: Sequence[Vector]
) -> dict[tuple[str, int], bool]:
    flags = {}
    for index, (source, v) in enumerate(zip(sources, values, strict=True)):
        if source.kind == "flag" and v.values.size and (v.values.all() or not v.values.any()):
            flags[side, index] = bool(v.values[0])
    return flags
