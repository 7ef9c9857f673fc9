"""Base of the devices that simulate the join pipeline: which builds there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from penstock.errors import DeviceError
from penstock.expr import ops
from penstock.host.device.base import PAIRS, RANGE_JOINS_ONLY, Device
from penstock.host.devices.narrow.kernel import NARROW_WIDTHS, narrow_refusal
from penstock.hw.hls.check import refusal
from penstock.hw.join.config import MAX_UNITS_PER_BLOCK, MAX_VALUE_BITS, JoinConfig
from penstock.hw.join.modes import refused_sum
from penstock.program import (
    MAX_BAND_TESTS,
    AnyProgram,
    BandProgram,
    GeneralProgram,
    Mode,
    Program,
    WindowProgram,
)

#: Width of positions in every build of these devices.
POSITION_BITS = 32

#: A program that every pipeline can be built for.
ANY_PROGRAM = GeneralProgram((), (), ops.const(True))


def block_of(units: int) -> int:
    """Units of a block: two blocks, or more where a block would have more than its mask."""
    return min(-(-units // 2), MAX_UNITS_PER_BLOCK)


def value_bits(program: Program, modes: frozenset[Mode]) -> int:
    """Width of the window-side value that a band build for these modes needs, signed."""
    if not isinstance(program, BandProgram) or not any(mode.needs_value for mode in modes):
        return 0
    assert program.payload is not None
    return program.payload.signed_bits


def _refused_value(program: Program, modes: frozenset[Mode]) -> str | None:
    """Why a build cannot fold this value; None if it can."""
    if isinstance(program, GeneralProgram):
        assert program.value is not None
        dtype = program.value.type
    else:
        assert program.payload is not None
        dtype = program.payload
    bits = dtype.signed_bits
    if Mode.SUM in modes and (reason := refused_sum(bits, POSITION_BITS)):
        return reason
    if isinstance(program, BandProgram) and bits > MAX_VALUE_BITS:
        return f"its values have {bits} bits, more than {MAX_VALUE_BITS}"
    return None


class PipelineDevice(Device):
    """A simulation of the join pipeline.

    Parameters
    ----------
    units : int
        Join units of a pipeline, in two blocks (more if a block would have more than 32).
    pipelines : int
        Pipelines side by side.
    key_bits : int, optional
        Widest codes of the units, one of ``key_widths``. By default units of each width are built;
        those of ``NARROW_WIDTHS`` also for pairs of wider codes, where the program asks for it.
    """

    def __init__(self, units: int, pipelines: int = 1, key_bits: int | None = None) -> None:
        if key_bits is not None and key_bits not in self.key_widths:
            widths = ", ".join(map(str, self.key_widths))
            raise DeviceError(f"{self.name} has units of {widths} bits, not {key_bits!r}")
        self._key_bits = key_bits
        self.narrow_widths: Sequence[int] = NARROW_WIDTHS if key_bits is None else (key_bits,)
        self._units = units
        self._pipelines = pipelines
        self._sums: Counter[str] = Counter()
        self._lock = Lock()
        self._join_config(program=ANY_PROGRAM)  # says now what is wrong with the number of units
        self.units = units * pipelines

    def _join_config(self, **program: Any) -> JoinConfig:
        """The pipeline for a program."""
        units = self._units
        return JoinConfig(
            units=units,
            units_per_block=max(block_of(units), 1) if isinstance(units, int) else 1,
            **program,
        )

    def refuses(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> str | None:
        if isinstance(program, WindowProgram):
            return RANGE_JOINS_ONLY
        if self._key_bits and (reason := narrow_refusal(program, modes, self._key_bits)):
            return reason
        if missing := modes - program.modes:
            names = ", ".join(sorted(mode.value for mode in missing))
            return f"it has nothing to fold for {names}"
        general = isinstance(program, GeneralProgram)
        needs_value = any(mode.needs_value for mode in modes)
        if general and (reason := refusal(program, value=needs_value)):
            return reason
        if needs_value and (reason := _refused_value(program, modes)):
            return reason
        if general:
            return None
        if not 1 <= program.tests <= MAX_BAND_TESTS:
            return f"the program has {program.tests} band tests; at most {MAX_BAND_TESTS} fit"
        widest = max(self.key_widths)
        if not 2 <= program.key_bits <= widest:
            return f"the program's codes have {program.key_bits} bits, not 2 to {widest}"
        return None

    def _check_program(self, program: AnyProgram, modes: frozenset[Mode]) -> None:
        """Raise an error for a program that the device cannot run."""
        if reason := self.refuses(program, modes):
            raise DeviceError(f"the {self.name} device cannot run this program: {reason}")

    def count(self, counters: Mapping[str, int]) -> None:
        """Add a task's counters to the device's."""
        with self._lock:
            self._sums.update(counters)

    def counters(self) -> dict[str, int]:
        with self._lock:
            return {**self._sums, "units": self._units * self._pipelines}
