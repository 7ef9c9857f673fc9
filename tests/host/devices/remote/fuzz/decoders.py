"""Messages straight to what decodes them, on both sides: tens of thousands in a few seconds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from penstock.errors import PenstockError
from penstock.host.device.base import AnyTask, Kernel, Pause, Result, Task, WindowBuffer
from penstock.host.device.checks import check_columns, window_columns
from penstock.host.device.programs import any_program_from, modes_from, program_header
from penstock.host.devices.remote.server.limits import ServerLimits
from penstock.host.devices.remote.server.session import check_asked
from penstock.host.devices.remote.wire.column_bytes import BODY, columns_of, pack
from penstock.host.devices.remote.wire.tasks import (
    result_from,
    result_message,
    task_from,
    task_message,
)
from penstock.host.devices.remote.wire.welcome import Welcome
from penstock.host.wire.errors import error_from, error_header
from penstock.host.wire.message import parse_header
from penstock.program import AnyProgram, BandProgram, Program
from tests.host.devices.remote.fuzz.answers import _result
from tests.host.devices.remote.fuzz.changes import changed, flipped
from tests.host.devices.remote.fuzz.talk import WELCOME, joined, keys, programs, task

#: Window tuples of the tasks.
_CAPACITY = 40
#: True messages that are changed; and how often they are made anew.
_POOL, _EACH = 100, 20_000

Decode = Callable[[dict[str, Any], list[np.ndarray]], object]
Message = tuple[str, Any, list[np.ndarray], Decode]


def _messages(rng: Random) -> list[Message]:
    """True messages, each with what decodes it."""
    made: list[Message] = []
    while len(made) < _POOL:
        program = rng.choice(programs())
        asked = task(rng, program, _CAPACITY)
        modes = sorted(mode.value for mode in program.modes)
        opened = {"program": program_header(program), "modes": modes}
        made.append(("open", opened, [], _opens))
        made.append(("task", *task_message(asked), _tasks(program)))
        made.append(("write", {}, keys(rng, program, 20, True), _writes(program)))
        answer = result_message(_result(rng, asked, program))
        made.append(("result", *answer, _results(asked, program)))
        window, arrived = joined(rng)
        modes = sorted(mode.value for mode in window.modes)
        made.append(("open join", {"program": program_header(window), "modes": modes}, [], _opens))
        made.append(("join task", *task_message(arrived), _tasks(window)))
        count = int(np.count_nonzero(arrived.tuples.is_b))
        numbers = np.zeros(min(count, arrived.rows - count, 2), np.uint32)
        pause = Pause(arrived.history + 1, arrived.history + 1, 0)
        answer = result_message(Result(numbers, numbers, pause, {"evaluations": 1}))
        made.append(("join result", *answer, _results(arrived, window)))
        told = error_header(PenstockError("no"))
        made.append(("error", told, [], lambda header, _: error_from(header, "here")))
        made.append(("welcome", WELCOME, [], lambda header, _: Welcome.parsed(header)))
    return made


def _opens(header: dict[str, Any], columns: list[np.ndarray]) -> object:
    program = any_program_from(header.get("program"))
    # What was believed is a program that travels on.
    assert any_program_from(json.loads(json.dumps(program_header(program)))) == program
    assert not isinstance(program, BandProgram) or len(program.cubes) <= 1 << program.tests
    return modes_from(header.get("modes"))


class _Loaded(Kernel):
    """A program of which the server checks tasks."""

    def submit(self, window: Any, task: Any) -> Any:
        raise NotImplementedError


class _Window(WindowBuffer):
    """A window that is never read."""

    def write(self, offset: int, columns: Any) -> None:
        raise NotImplementedError

    def free(self) -> None:
        raise NotImplementedError


def _tasks(program: AnyProgram) -> Decode:
    kernel, window = _Loaded(program, program.modes), _Window(_CAPACITY)

    def decode(header: dict[str, Any], columns: list[np.ndarray]) -> object:
        found = task_from(header, columns, program)
        check_asked(kernel, window, found, ServerLimits())
        if isinstance(found, Task):
            assert len(found.start) == len(found.end)
            assert not found.rows or 0 <= found.start.min() <= found.end.max() <= _CAPACITY
        else:
            assert 0 <= found.history <= found.rows
        return found

    return decode


def _writes(program: Program) -> Decode:
    return lambda header, columns: check_columns("keys", window_columns(program), columns)


def _results(asked: AnyTask, program: AnyProgram) -> Decode:
    return lambda header, columns: result_from(header, columns, asked, _CAPACITY, program)


def main(seed: int, messages: int) -> Counter[str]:
    """Fuzz and give the counts."""
    counts: Counter[str] = Counter()
    while counts["messages"] < messages:
        rng = Random(seed * 1_000_003 + counts["messages"])
        pool = _messages(rng)
        for _ in range(min(_EACH, messages - counts["messages"])):
            counts["messages"] += 1
            kind, header, columns, decode = rng.choice(pool)
            try:
                decode(*_changed(rng, header, columns))
                counts["believed"] += 1
            except PenstockError:
                counts["refused"] += 1
            except BaseException as error:
                error.add_note(f"seed {seed}, message {counts['messages']}, {kind}")
                raise
    return counts


def _changed(
    rng: Random, header: Any, columns: list[np.ndarray]
) -> tuple[dict[str, Any], list[np.ndarray]]:
    """A message with changes, as far as a server or client decodes it before it looks at it."""
    packed = pack(columns)
    header = {**header, BODY: packed.layout.header()}
    text = json.dumps(changed(rng, header) if rng.random() < 0.8 else header).encode()
    body = b"".join(part.tobytes() for part in packed.chunks())
    if rng.random() < 0.2:
        text = flipped(rng, text)
    if rng.random() < 0.3:
        body = flipped(rng, body)
    arrived = parse_header(text)
    return arrived, columns_of(arrived, np.frombuffer(body, np.uint8))
