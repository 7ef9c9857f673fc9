"""Programs survive their trip exactly, and nothing else becomes a program."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

from penstock.expr import ops
from penstock.host.device.fields import MalformedError
from penstock.host.device.programs import any_program_from, program_from, program_header
from penstock.program import BandProgram, GeneralProgram, Program, WindowProgram
from penstock.types import FLOAT64, Type, integer
from tests.host.kit.predicates import NARROW, OTHER, WIDE, Predicates
from tests.kit.effort import effort


def through_text(program: Program) -> Program:
    return program_from(json.loads(json.dumps(program_header(program))))


def random_program(seed: int) -> GeneralProgram:
    rng = np.random.default_rng(seed)
    types = (NARROW, WIDE, OTHER, NARROW + WIDE + OTHER)[seed % 4]
    while True:
        try:
            made = Predicates(rng, types)
            program = made.program(4 + seed % 20)
            return GeneralProgram(program.stream, program.window, program.predicate, made.value())
        except ValueError:  # a draw of keys from which nothing can be made
            continue


@pytest.mark.parametrize("seed", range(effort(40, 10)))
def test_general_programs_arrive_as_they_were(seed: int) -> None:
    program = random_program(seed)
    arrived = through_text(program)
    assert arrived == program
    # Nodes are interned, so equal ones are one: types and bounds included.
    assert isinstance(arrived, GeneralProgram)
    assert arrived.predicate is program.predicate
    assert arrived.value is program.value


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        (integer(-(1 << 80), 1 << 80), [3 * k - (1 << 70) for k in range(100)]),
        (FLOAT64, [float("inf"), -0.0, *(k / 3 for k in range(1, 100))]),
    ],
)
def test_lists_arrive_as_they_were(dtype: Type, values: list) -> None:
    s, w = (ops.key(side, 0, dtype) for side in "sw")
    predicate = ops.is_in(ops.sub(s, w), [ops.const(value) for value in values])
    program = GeneralProgram((s.type,), (w.type,), predicate)
    arrived = through_text(program)
    assert isinstance(arrived, GeneralProgram)
    assert arrived.predicate is predicate


@pytest.mark.parametrize(
    "program",
    [
        BandProgram(1, 0b10),
        BandProgram(8, (1 << 256) - 2, 64, integer(-(1 << 80), 1 << 80, nullable=False)),
        BandProgram(2, 0, 2, integer(0, 0)),
        BandProgram(2, 0b1000, 32, unit_bits=16),
    ],
)
def test_band_programs_arrive_as_they_were(program: BandProgram) -> None:
    assert through_text(program) == program


@pytest.mark.parametrize("value", [0.0, -0.0, 1e308, 5e-324, float("inf"), float("nan"), 0.1])
def test_float_constants_are_exact(value: float) -> None:
    key = ops.key("w", 0, FLOAT64)
    program = GeneralProgram((), (key.type,), ops.lt(key, ops.const(value)))
    arrived = through_text(program)
    assert isinstance(arrived, GeneralProgram)
    assert arrived.predicate is program.predicate


def places(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """Where something could be replaced."""
    yield path
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            yield from places(inner, (*path, key))


#: What is put in the place of something.
JUNK = (None, True, -1, 7, 1.5, 10**30, "", "x", "9" * 5000, [], {}, ["int", "5"], ["s", 0], [[]])


@pytest.mark.parametrize("seed", range(effort(12, 4)))
def test_whatever_else_arrives_is_refused(seed: int) -> None:
    """Any part replaced by junk gives a program that is sound, or the one error; never another."""
    rng = Random(seed)
    program = BandProgram(3, 0xFE, 16, integer(0, 9), 9) if seed == 0 else random_program(seed)
    header = program_header(program)
    for path in list(places(header)):
        broken: Any = copy.deepcopy(header)
        junk = rng.choice(JUNK)
        if not path:
            broken = junk
        else:
            inside = broken
            for key in path[:-1]:
                inside = inside[key]
            inside[path[-1]] = junk
        try:
            arrived = program_from(broken)
        except MalformedError:
            continue
        assert through_text(arrived) == arrived


BOOLEAN = ["boolean", "0", "0", 0, "", False]
NUMBER = ["integer", "0", "9", 0, "", False]
KEY = ["KEY", [], NUMBER, ["s", 0]]
NEGATIVE = ["CONST", [], ["integer", "-1", "-1", 0, "", False], ["int", "-1"]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"form": "python"}, "band or general"),
        ({"nodes": []}, "1 to"),
        ({"predicate": 99}, "node 99"),
        ({"nodes": [["COLUMN", [], ["boolean", "0", "0", 0, "", False], ["s", "x"]]]}, "no step"),
        ({"nodes": [["ADD", [0], ["integer", "0", "1", 0, "", False], None]]}, "node 0"),
        ({"nodes": [["KEY", [], ["integer", "0", "1", 0, "", False], ["s", 3]]]}, "no key"),
        ({"nodes": [["__class__", [], [], None]]}, "a node of a predicate"),
        ({"nodes": [KEY, ["ADD", [0, 0], BOOLEAN, None]]}, "does not give boolean"),
        ({"nodes": [KEY, ["NOT", [0], BOOLEAN, None]]}, "does not give boolean"),
        ({"nodes": [KEY, ["LT", [0], BOOLEAN, None]]}, "does not give boolean"),
        ({"nodes": [KEY, ["CASE", [0, 0, 0], NUMBER, None]]}, "does not give integer"),
        ({"nodes": [KEY, ["IN", [0], BOOLEAN, None]]}, "IN list has up to"),
        ({"nodes": [KEY, ["IN", [0, 0], BOOLEAN, [["int", "1"]]]]}, "and one operand"),
        ({"nodes": [KEY, ["IN", [], BOOLEAN, [["int", "1"]]]]}, "and one operand"),
        ({"nodes": [KEY, ["IN", [0], NUMBER, [["int", "1"]]]]}, "does not give integer"),
        ({"nodes": [KEY, ["IN", [0], BOOLEAN, [["float", "0x1p0"]]]]}, "other values than"),
        ({"nodes": [KEY, ["IN", [0], BOOLEAN, [["int", "x"]]]]}, "is no integer"),
        ({"nodes": [KEY, ["ADD", [0, 0], NUMBER, None]]}, r"gives 0\.\.18, not 0\.\.9"),
        ({"nodes": [KEY, NEGATIVE, ["SHL", [0, 1], NUMBER, None]]}, "shifts by 0 to 63"),
    ],
)
def test_messages(change: dict, message: str) -> None:
    s, w = (ops.key(side, 0, integer(0, 9)) for side in "sw")
    header = program_header(GeneralProgram((s.type,), (w.type,), ops.lt(s, w)))
    with pytest.raises(MalformedError, match=message):
        program_from({**header, **change})


def test_window_programs_arrive_as_they_were() -> None:
    program = WindowProgram(random_program(1), BandProgram(2, 0b1000), (0, 1 << 40))
    header = json.loads(json.dumps(program_header(program)))
    assert any_program_from(header) == program
    for rows in ([1], [1, -1], [1, 1 << 63], [1, True], "ab"):
        with pytest.raises(MalformedError):
            any_program_from({**header, "rows": rows})
    # A direction of a window join is none itself.
    with pytest.raises(MalformedError, match="band or general"):
        any_program_from({**header, "a": header})
    with pytest.raises(MalformedError, match="band or general"):
        program_from(header)
