"""Predicates of many operands and steps: their source grows with them, and no faster."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
import pytest

from penstock.expr import ops
from penstock.expr.columns import evaluate_columns, int_vector
from penstock.expr.node import Expr
from penstock.host.devices.cpu import CpuDevice
from penstock.host.devices.cpu.codegen import MAX_KEYS, generate
from penstock.host.devices.cpu.general import CompiledKernel
from penstock.host.devices.cpu.interpreted import InterpretedKernel
from penstock.host.devices.cpu.operations import MAX_STEPS, NotCompilable
from penstock.program import GeneralProgram
from penstock.types import FLOAT32, FLOAT64, Type, integer
from tests.host.kit.predicates import column
from tests.host.kit.tasks import Join, expected, load, ranges, run_to_end, sorted_pairs

INTEGER = integer(-1000, 1000, nullable=False)


@pytest.fixture(scope="module")
def device():
    with CpuDevice(threads=1) as opened:
        yield opened


def operands(dtype: Type, count: int) -> list[Expr]:
    """Distinct values of both sides."""
    s = ops.key("s", 0, dtype.as_nullable(False))
    w = ops.key("w", 0, dtype.as_nullable(False))
    steps = [ops.const(k) if dtype.is_integral else ops.const(k / 4) for k in range(count)]
    return [
        ops.sub(ops.add(s, step), w) if k % 2 else ops.sub(w, step) for k, step in enumerate(steps)
    ]


def choice(values: Sequence[Expr]) -> Expr:
    zero = ops.sub(values[0], values[0])
    return ops.case([(ops.lt(v, zero), v) for v in values], zero)


def nested(values: Sequence[Expr]) -> Expr:
    result = values[0]
    for value in values[1:]:
        result = ops.case([(ops.lt(value, result), value)], result)
    return result


def any_of(values: Sequence[Expr]) -> Expr:
    tests = [ops.eq(v, values[0]) for v in values[1:]]
    return ops.case([(ops.or_(*tests), values[0])], values[1])


FORMS: dict[str, Callable[[Sequence[Expr]], Expr]] = {
    "greatest": lambda values: ops.greatest(*values),
    "least": lambda values: ops.least(*values),
    "case": choice,
    "nested case": nested,
    "or": any_of,
}
TYPES = {"integers": INTEGER, "float32": FLOAT32, "float64": FLOAT64}


def program(form: str, dtype: Type, count: int) -> GeneralProgram:
    value = FORMS[form](operands(dtype, count))
    zero = ops.const(0) if dtype.is_integral else ops.const(0.0)
    own = dtype.as_nullable(False)
    return GeneralProgram((own,), (own,), ops.lt(value, zero))


@pytest.mark.parametrize("dtype", TYPES.values(), ids=TYPES)
@pytest.mark.parametrize("form", FORMS)
def test_source_is_linear_in_operands(form: str, dtype: Type) -> None:
    sizes = [len(generate(program(form, dtype, count))) for count in (10, 20, 40)]
    # Twice as many more; names of variables become longer, too.
    assert sizes[2] - sizes[1] < 2.5 * (sizes[1] - sizes[0])


@pytest.mark.parametrize("dtype", TYPES.values(), ids=TYPES)
@pytest.mark.parametrize("form", FORMS)
def test_no_line_of_the_source_is_long(form: str, dtype: Type) -> None:
    assert max(map(len, generate(program(form, dtype, 40)).splitlines())) < 200


def joined(made: GeneralProgram, seed: int) -> Join:
    rng = np.random.default_rng(seed)
    start, end = ranges(rng, "full", 9, 40)
    return Join(
        made, [column(rng, made.window[0], 40)], [column(rng, made.stream[0], 9)], start, end
    )


@pytest.mark.parametrize("dtype", [INTEGER, FLOAT64], ids=["integers", "floats"])
def test_many_operands_compiled(device: CpuDevice, dtype: Type) -> None:
    """All forms in one program, so that it is compiled once."""
    values = [form(operands(dtype, 9)) for form in FORMS.values()]
    predicate = ops.lt(reduce(ops.add, values), ops.sub(values[0], values[0]))
    join = joined(GeneralProgram((dtype,), (dtype,), predicate), 5)
    kernel = device.open(join.program)
    assert isinstance(kernel, CompiledKernel)
    results = run_to_end(kernel, load(kernel, join), join, 1000)
    found = expected(join)
    assert 0 < len(found) < 9 * 40
    np.testing.assert_array_equal(sorted_pairs(results), found)


@pytest.mark.parametrize("form", FORMS)
def test_long_predicates_are_interpreted(device: CpuDevice, form: str) -> None:
    join = joined(program(form, INTEGER, MAX_STEPS), 7)
    with pytest.raises(NotCompilable, match=f"more than {MAX_STEPS} steps"):
        generate(join.program)
    kernel = device.open(join.program)
    assert isinstance(kernel, InterpretedKernel)
    results = run_to_end(kernel, load(kernel, join), join, 1000)
    np.testing.assert_array_equal(sorted_pairs(results), expected(join))


def test_programs_of_many_keys_are_interpreted(device: CpuDevice) -> None:
    own = (INTEGER,) * (MAX_KEYS // 2 + 1)
    keys = [(ops.key("s", k, INTEGER), ops.key("w", k, INTEGER)) for k in range(len(own))]
    predicate = ops.or_(*(ops.lt(ops.add(s, ops.const(990)), w) for s, w in keys))
    made = GeneralProgram(own, own, predicate)
    rng = np.random.default_rng(9)
    start, end = ranges(rng, "full", 9, 40)
    stream, window = ([column(rng, INTEGER, rows) for _ in own] for rows in (9, 40))
    join = Join(made, window, stream, start, end)
    kernel = device.open(made)
    assert isinstance(kernel, InterpretedKernel)
    found = expected(join)
    assert 0 < len(found) < 9 * 40
    results = run_to_end(kernel, load(kernel, join), join, 1000)
    np.testing.assert_array_equal(sorted_pairs(results), found)


@pytest.mark.parametrize("form", FORMS)
def test_a_thousand_operands_do_not_stand_in_memory_together(form: str) -> None:
    predicate = program(form, INTEGER, 1000).predicate
    rows = np.arange(10_000)
    keys = {("s", 0): int_vector(rows % 900), ("w", 0): int_vector(rows % 700)}
    tracemalloc.start()
    evaluate_columns(predicate, keys, len(rows))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 * rows.nbytes
