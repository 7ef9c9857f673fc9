"""What a client of a server says, at random: calls that are right for what it has there."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import numpy as np

from penstock.errors import DeviceError
from penstock.expr import ops
from penstock.host.device.base import PAIRS, Kernel, Task
from penstock.host.device.programs import program_header
from penstock.host.device.storage import key_dtype, storage_dtype
from penstock.host.device.window_join import WindowTask
from penstock.host.devices.remote.wire.tasks import task_message
from penstock.program import AnyProgram, BandProgram, GeneralProgram, Mode, Program, WindowProgram
from penstock.types import BOOL, FLOAT64, Type, integer
from tests.host.kit.arrivals import arrivals
from tests.host.kit.predicates import Predicates
from tests.host.kit.tasks import ranges
from tests.penstock.kit.devices import InterpretingCpu

#: Window tuples and stream tuples, at most.
MOST_ROWS = 64

#: What a server says at first.
WELCOME: dict[str, Any] = {
    "session": "s" * 32,
    "version": "1",
    "device": "cpu",
    "lanes": 2,
    "depth": 16,
    "key_widths": [16, 32, 64],
    "narrow_widths": [16, 24],
    "task_evaluations": None,
    "lease_s": 15.0,
    "devices": [{"name": "cpu", "lanes": 2, "key_widths": [16, 32], "what": "A CPU."}],
}

Call = tuple[dict[str, Any], list[np.ndarray] | None]

_WIDE = integer(-(1 << 80), 1 << 80, nullable=False)
_LONG = integer(-(1 << 63), (1 << 63) - 1, nullable=False)
_BYTE = integer(-5, 100, nullable=False)


class FuzzedCpu(InterpretingCpu):
    """A CPU that refuses what takes seconds to compile."""

    def refuses(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> str | None:
        if isinstance(program, BandProgram) and (program.tests > 1 or program.key_bits > 32):
            return "it compiles few programs"
        return super().refuses(program, modes)

    def open(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> Kernel:
        if reason := self.refuses(program, modes):
            raise DeviceError(f"the {self.name} device cannot run this program: {reason}")
        return super().open(program, modes)


@cache
def programs() -> tuple[Program, ...]:
    """Programs that clients open; those with a value give it away in results."""
    s, w = ops.key("s", 0, _LONG), ops.key("w", 0, _LONG)
    general = GeneralProgram((_LONG,), (_LONG,), ops.le(s, w), w)
    wide = ops.key("w", 0, _WIDE)
    always = ops.le(wide, ops.const(1 << 81))
    made: list[Program] = [
        BandProgram(1, 0b10, 32),
        BandProgram(1, 0b11, 32, _LONG, 16),
        general,
        GeneralProgram((), (_WIDE,), always, wide),
    ]
    rng = np.random.default_rng(7)
    types = (_BYTE, _LONG, _WIDE, BOOL, FLOAT64)
    while len(made) < 12:
        try:
            grown = Predicates(rng, types)
            one = grown.program(int(rng.integers(2, 12)))
            made.append(GeneralProgram(one.stream, one.window, one.predicate, grown.value()))
        except ValueError:  # a draw of keys from which nothing can be made
            continue
    return tuple(made)


def column(rng: Random, dtype: Type, rows: int) -> np.ndarray:
    """Random values of a type."""
    stored = storage_dtype(dtype)
    if stored == np.bool_:
        return np.array([rng.random() < 0.5 for _ in range(rows)], bool)
    if dtype.is_float:
        return np.array([rng.uniform(-9, 9) for _ in range(rows)], stored)
    values = np.empty(rows, object)
    values[:] = [rng.randint(dtype.lo, dtype.hi) for _ in range(rows)]
    return values.astype(stored)


def keys(rng: Random, program: Program, rows: int, window: bool) -> list[np.ndarray]:
    """Random keys of either side."""
    if isinstance(program, GeneralProgram):
        types = program.window if window else program.stream
        return [column(rng, dtype, rows) for dtype in types]
    code, count = key_dtype(program.key_bits), program.tests if window else 2 * program.tests
    found = [np.array([rng.randrange(50) for _ in range(rows)], code) for _ in range(count)]
    if window and program.payload is not None:
        found.append(column(rng, program.payload, rows))
    return found


def task(rng: Random, program: Program, capacity: int) -> Task:
    """A random task on a window."""
    rows = rng.randrange(MOST_ROWS)
    kind = rng.choice(("random", "full", "empty", "gaps"))
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    start, end = ranges(numbers, kind, rows, capacity)
    mode = rng.choice(sorted(program.modes, key=lambda mode: mode.value))
    return Task(keys(rng, program, rows, False), start, end, rng.choice((1, 8, 4096)), mode)


def joined(rng: Random) -> tuple[WindowProgram, WindowTask]:
    """A window-join program and a task."""
    numbers = np.random.default_rng(rng.randrange(1 << 30))
    sizes = rng.choice(((3, 3), (0, 9), (1 << 40, 5), (100, 100)))
    tuples, program = arrivals(numbers, rng.randrange(1, MOST_ROWS), tests=1, rows=sizes)
    history = rng.randrange(len(tuples))
    return program, WindowTask(tuples, history, rng.choice((64, 4096, 1 << 41)))


class Talker:
    """A client's calls, each right for what the answers to earlier ones said."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._kernels: dict[int, Program] = {}
        self._windows: dict[int, tuple[Program, int]] = {}
        self._joins: dict[int, WindowProgram] = {}
        self._asked: Any = None

    def next(self) -> Call:
        """The next call."""
        rng = self._rng
        acts = [self._open, self._open_join, self._keep]
        acts += [self._allocate, self._resident, self._close] if self._kernels else []
        acts += [self._write, self._task, self._task, self._free] if self._windows else []
        acts += [self._loaded] if self._windows else []
        acts += [self._join_task, self._close_join] if self._joins else []
        return rng.choice(acts)()

    def heard(self, answer: dict[str, Any]) -> None:
        """Take the answer to the latest call in."""
        asked, self._asked = self._asked, None
        kernels = self._joins if isinstance(asked, WindowProgram) else self._kernels
        for field, held in (("kernel", kernels), ("window", self._windows)):
            if asked is not None and type(answer.get(field)) is int:
                held[answer[field]] = asked

    def _open(self) -> Call:
        if len(self._kernels) > 6:
            return self._close()
        program = self._asked = self._rng.choice(programs())
        modes = sorted(mode.value for mode in program.modes)
        header = {"program": program_header(program), "modes": modes}
        return {"call": self._rng.choice(("open", "open", "refuses")), **header}, None

    def _close(self) -> Call:
        number = self._rng.choice(list(self._kernels))
        if len(self._kernels) > 3:
            del self._kernels[number]
        return {"call": "close", "kernel": number}, None

    def _allocate(self) -> Call:
        if len(self._windows) > 8:
            return self._free()
        kernel, capacity = self._rng.choice(list(self._kernels)), self._rng.randrange(MOST_ROWS)
        self._asked = self._kernels[kernel], capacity
        return {"call": "allocate", "kernel": kernel, "capacity": capacity}, None

    def _resident(self) -> Call:
        if len(self._windows) > 8:
            return self._free()
        (header, _), rng = self._allocate(), self._rng
        # Names of its own: who asks for a window that another client is writing waits for it.
        names = {part: f"{part} {rng.randrange(4)} {id(self)}" for part in ("scope", "block")}
        content = f"content {rng.randrange(1 << 60)}"
        return {**header, "call": "resident", **names, "content": content}, None

    def _loaded(self) -> Call:
        return {"call": "loaded", "window": self._rng.choice(list(self._windows))}, None

    def _keep(self) -> Call:
        blocks = [f"block {n} {id(self)}" for n in range(self._rng.randrange(3))]
        return {"call": "keep", "scope": f"scope 1 {id(self)}", "blocks": blocks}, None

    def _write(self) -> Call:
        number, (program, capacity) = self._rng.choice(list(self._windows.items()))
        rows = self._rng.randrange(capacity + 1)
        offset = self._rng.randrange(capacity - rows + 1)
        columns = keys(self._rng, program, rows, True)
        return {"call": "write", "window": number, "offset": offset}, columns

    def _task(self) -> Call:
        number, (program, capacity) = self._rng.choice(list(self._windows.items()))
        header, columns = task_message(task(self._rng, program, capacity))
        return {"call": "task", "window": number, **header}, columns

    def _free(self) -> Call:
        number = self._rng.choice(list(self._windows))
        if len(self._windows) > 3:
            del self._windows[number]
        return {"call": "free", "window": number}, None

    def _open_join(self) -> Call:
        program, _ = joined(self._rng)
        call = "refuses"
        if len(self._joins) < 4:
            self._asked, call = program, "open"
        return {"call": call, "program": program_header(program), "modes": ["pairs"]}, None

    def _join_task(self) -> Call:
        number = self._rng.choice(list(self._joins))
        header, columns = task_message(joined(self._rng)[1])
        return {"call": "task", "kernel": number, **header}, columns

    def _close_join(self) -> Call:
        number = self._rng.choice(list(self._joins))
        del self._joins[number]
        return {"call": "close", "kernel": number}, None
