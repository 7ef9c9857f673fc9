"""Prepared keys of a join in one direction: what a device is given for each tuple.

``Preparer`` turns columns into prepared values; a ``Layout`` (fixed for a window run) turns them
into the arrays of a program. A layout made from some rows may not cover later ones: then ``covers``
is false and the run is laid out anew.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.expr.columns import Columns, Vector, evaluate_columns
from penstock.expr.node import Expr, walk
from penstock.plan.band import BandForm, BandTest, Bound
from penstock.plan.forms import JoinForm
from penstock.plan.general import CODE_BITS, GeneralForm, KeySource
from penstock.plan.logic import zero_filled
from penstock.program import BandProgram, GeneralProgram, Program
from penstock.types import Kind, Type, bits_for, integer

from ..device.storage import storage_dtype
from . import encoders
from .encoders import Encoder

_TWO_63 = 1 << 63


@dataclass(frozen=True)
class StreamKeys:
    """Arrays of a task's stream tuples, and which tuples can match at all."""

    arrays: list[np.ndarray]
    possible: np.ndarray


class Layout(ABC):
    """How the keys of one window run are encoded, and the program that fits."""

    program: Program

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


def window_keys(form: JoinForm, columns: Columns, rows: int) -> list[Vector]:
    """Prepared values of window tuples, before any encoding."""
    if isinstance(form.form, BandForm):
        found = [_key(test.key, columns, rows) for test in form.form.tests]
        if form.form.need is not None:
            known = _is_true(evaluate_columns(form.form.need, columns, rows))
            found = [_where(v, known) for v in found]
        if form.form.payload is not None:
            found.append(_source(KeySource("value", form.form.payload), columns, rows))
        return found
    return [_source(source, columns, rows) for source in form.form.window_keys]


def layout(
    form: JoinForm,
    window: Sequence[Vector],
    stream: Sequence[Vector],
    widths: Sequence[int],
    spare_bits: int = 0,
) -> Layout:
    """A layout that covers these tuples.

    Parameters
    ----------
    form : JoinForm
    window : sequence of Vector
        From :func:`window_keys`.
    stream : sequence of Vector
        From :func:`stream_values`; only the general form looks at them.
    widths : sequence of int
        ``Device.key_widths``.
    spare_bits : int
        Room for later values: above 0, codes of a band use their whole width, and an integer key
        of the general form gets the bounds of the next register width that is a multiple of this.
        0 keeps the exact bounds.
    """
    if isinstance(form.form, BandForm):
        return _BandLayout(form.form, window, widths, spare_bits > 0)
    return _GeneralLayout(form.form, window, stream, spare_bits)


def check(form: JoinForm, columns: Columns, rows: int, *, window: bool) -> None:
    """Meet every CAST that can fail in tuples of one side, before they change any state.

    Raises
    ------
    DataError
    """
    check_casts(expressions(form, window), columns, rows)


def check_casts(exprs: Iterable[Expr], columns: Columns, rows: int) -> None:
    """The same for expressions.

    Raises
    ------
    DataError
    """
    for expr in exprs:
        if expr.casts:
            evaluate_columns(expr, columns, rows)


def expressions(form: JoinForm, window: bool) -> list[Expr]:
    """What is evaluated of a window tuple, or of a stream tuple."""
    if isinstance(form.form, BandForm):
        tests = form.form.tests
        others = [e for e in (form.form.payload, form.form.need) if e is not None]
        return (
            [t.key for t in tests] + others if window else [e for t in tests for e in _of_stream(t)]
        )
    sources = form.form.window_keys if window else form.form.stream_keys
    found = []
    for source in sources:
        found += [source.expr] if source.test is None or window else _of_stream(source.test)
    return found


def _of_stream(test: BandTest) -> list[Expr]:
    return [*(b.expr for b in (*test.lo, *test.hi)), *test.when]


def stream_values(form: JoinForm, columns: Columns, rows: int) -> list[Vector]:
    """Prepared values of stream tuples in the general form; empty in band form."""
    if isinstance(form.form, BandForm):
        return []
    return [
        Vector(np.zeros(0, dtype=np.int64))
        if source.kind in ("lo", "hi")
        else _source(source, columns, rows)
        for source in form.form.stream_keys
    ]


def _key(expr: Expr, columns: Columns, rows: int) -> Vector:
    v = evaluate_columns(expr, columns, rows)
    if v.values.dtype == bool:
        return Vector(_is_true(v).astype(np.int64), None, 0, 1)
    return v


def _where(v: Vector, known: np.ndarray) -> Vector:
    """The vector, NULL also where ``known`` is false."""
    return Vector(v.values, known if v.valid is None else v.valid & known, v.lo, v.hi)


def _is_true(v: Vector) -> np.ndarray:
    return v.values if v.valid is None else v.values & v.valid


def _source(source: KeySource, columns: Columns, rows: int) -> Vector:
    """Value of a general form's key; NULL is zero."""
    v = evaluate_columns(source.expr, columns, rows)
    if source.kind == "flag":
        return Vector(_is_true(v))
    if source.kind == "code" or v.valid is None:
        return v
    zero = "" if source.expr.type.kind is Kind.STRING else b"" if v.values.dtype == "O" else 0
    if source.expr.type.is_integral:
        zero = 0
    filled = np.where(v.valid, v.values, zero)
    return Vector(filled.astype(v.values.dtype), None, min(v.lo, 0), max(v.hi, 0))


# -- band form ------------------------------------------------------------------------------------


class _BandLayout(Layout):
    def __init__(
        self, form: BandForm, window: Sequence[Vector], widths: Sequence[int], spare: bool
    ) -> None:
        self.form = form
        self.payload: Type | None = None
        if form.payload is not None:
            window, payload = window[:-1], window[-1]
            self.payload = integer(payload.lo, payload.hi, nullable=False)
        self.encoders = [encoders.fit(v, widths[-1]) for v in window]
        self.bits = encoders.width_for(self.encoders, widths)
        if spare:
            self.encoders = [
                e.stretched(self.bits) if isinstance(e, encoders.OffsetEncoder) else e
                for e in self.encoders
            ]
        program = BandProgram(len(form.tests), form.table, self.bits, self.payload)
        self.program, self.cubes = program, program.cubes

    def covers(self, window: Sequence[Vector]) -> bool:
        if self.payload is not None:
            window, payload = window[:-1], window[-1]
            if not _within([self.payload], [payload]):
                return False
        return all(e.covers(v) for e, v in zip(self.encoders, window, strict=True))

    def window(self, window: Sequence[Vector]) -> list[np.ndarray]:
        tests = window[: len(self.encoders)]
        arrays = [e.keys(v, self.bits) for e, v in zip(self.encoders, tests, strict=True)]
        if self.payload is not None:
            arrays.append(window[-1].values.astype(storage_dtype(self.payload), copy=False))
        return arrays

    def stream(self, columns: Columns, rows: int) -> StreamKeys:
        arrays: list[np.ndarray] = []
        alive: list[np.ndarray] = []
        empty = encoders.empty_code(self.bits)
        for test, encoder in zip(self.form.tests, self.encoders, strict=True):
            lo, hi = _bounds(test, encoder, columns, rows, self.bits)
            arrays += [lo, hi]
            alive.append(lo != empty)
        possible = np.zeros(rows, dtype=bool)
        for cube in self.cubes:
            members = [alive[d] for d in range(len(alive)) if cube >> d & 1]
            possible |= np.logical_and.reduce(members) if members else True
        return StreamKeys(arrays, possible)


def _bounds(
    test: BandTest, encoder: Encoder, columns: Columns, rows: int, bits: int
) -> tuple[np.ndarray, np.ndarray]:
    def valued(bounds: Sequence[Bound]) -> list[tuple[Bound, Vector]]:
        return [(b, evaluate_columns(b.expr, columns, rows)) for b in bounds]

    possible = np.ones(rows, dtype=bool)
    for condition in test.when:
        possible &= _is_true(evaluate_columns(condition, columns, rows))
    return encoders.bound_codes(encoder, valued(test.lo), valued(test.hi), possible, bits)


# -- general form ---------------------------------------------------------------------------------


class _GeneralLayout(Layout):
    def __init__(
        self,
        form: GeneralForm,
        window: Sequence[Vector],
        stream: Sequence[Vector],
        spare_bits: int,
    ) -> None:
        self.form = form
        self.encoders = {
            source.test: encoders.fit(v, CODE_BITS)
            for source, v in zip(form.window_keys, window, strict=True)
            if source.kind == "code"
        }
        # Room for later values must not cost machine integers: products double its bits.
        steps = [spare_bits >> k for k in range(spare_bits.bit_length())] or [0]
        for step in steps:
            if _is_narrow(self._fix_types(window, stream, step)):
                return
        self._fix_types(window, stream, steps[0])

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
        made = form.program(self.stream_types, self.window_types, constants)
        self.program = made
        return made

    def covers(self, window: Sequence[Vector]) -> bool:
        return _within(self.window_types, window) and all(
            self.encoders[source.test].covers(v)
            for source, v in zip(self.form.window_keys, window, strict=True)
            if source.kind == "code"
        )

    def covers_stream(self, stream: Sequence[Vector]) -> bool:
        return _within(self.stream_types, stream)

    def window(self, window: Sequence[Vector]) -> list[np.ndarray]:
        return [
            (
                self.encoders[source.test].keys(v, CODE_BITS) if source.kind == "code" else v.values
            ).astype(storage_dtype(dtype), copy=False)
            for source, v, dtype in zip(
                self.form.window_keys, window, self.window_types, strict=True
            )
        ]

    def stream(self, columns: Columns, rows: int) -> StreamKeys:
        codes: dict[BandTest, tuple[np.ndarray, np.ndarray]] = {}
        arrays = []
        for source, dtype in zip(self.form.stream_keys, self.stream_types, strict=True):
            if source.test is None:
                v = _source(source, columns, rows)
                arrays.append(v.values.astype(storage_dtype(dtype), copy=False))
                continue
            if source.test not in codes:
                encoder = self.encoders[source.test]
                codes[source.test] = _bounds(source.test, encoder, columns, rows, CODE_BITS)
            pair = codes[source.test][0 if source.kind == "lo" else 1]
            arrays.append(pair.astype(storage_dtype(dtype)))
        return StreamKeys(arrays, np.ones(rows, dtype=bool))


def _key_types(
    sources: Sequence[KeySource], values: Sequence[Vector], spare_bits: int
) -> list[Type]:
    return [_key_type(source, v, spare_bits) for source, v in zip(sources, values, strict=True)]


def _key_type(source: KeySource, v: Vector, spare_bits: int) -> Type:
    if source.kind in ("code", "lo", "hi"):
        return integer(0, (1 << CODE_BITS) - 1, nullable=False)
    dtype = zero_filled(source.expr.type)
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
    return all(e.type.lo >= -_TWO_63 and e.type.hi < _TWO_63 for root in roots for e in walk(root))


def _within(types: Sequence[Type], values: Sequence[Vector]) -> bool:
    return all(
        not t.is_integral or v.values.dtype.kind not in "iO" or (t.lo <= v.lo and v.hi <= t.hi)
        for t, v in zip(types, values, strict=True)
    )


def _constant_flags(
    side: str, sources: Sequence[KeySource], values: Sequence[Vector]
) -> dict[tuple[str, int], bool]:
    found = {}
    for index, (source, v) in enumerate(zip(sources, values, strict=True)):
        if source.kind == "flag" and v.values.size and (v.values.all() or not v.values.any()):
            found[side, index] = bool(v.values[0])
    return found
