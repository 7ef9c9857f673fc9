"""The FJoin paper's pipeline as a device: the baseline of all measurements."""

from __future__ import annotations

from typing import Any

from penstock.errors import DeviceError
from penstock.host.device.base import PAIRS, RANGE_JOINS_ONLY, Kernel
from penstock.hw.join.fjoin.config import FJoinConfig
from penstock.hw.join.fjoin.predicates import general_form
from penstock.program import AnyProgram, BandProgram, Mode, Program, WindowProgram

from .amaranth_device import AmaranthDevice
from .pipeline_device import PipelineDevice
from .rtl_device import RtlDevice


class _Builds(PipelineDevice):
    """Builds the paper's pipeline where its base class would build ours."""

    def __init__(self, *arguments: Any, key_bits: int | None = None, **options: Any) -> None:
        if key_bits is not None:
            raise DeviceError("the paper's pipeline has its predicate built in, in full width")
        super().__init__(*arguments, **options)
        self.narrow_widths = ()

    def _join_config(self, **program: Any) -> FJoinConfig:
        return FJoinConfig(units=self._units, **program)

    def refuses(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> str | None:
        if isinstance(program, WindowProgram):
            return f"the paper's pipeline does {RANGE_JOINS_ONLY.removeprefix('it does ')}"
        if modes != PAIRS:
            return "the paper's unit emits pairs only; use another device for aggregates"
        return super().refuses(program, modes)

    def _built_in(self, program: AnyProgram, modes: frozenset[Mode]) -> Program:
        """The build of a program, which is built in: the unit takes no bounds and no table."""
        self._check_program(program, modes)
        assert not isinstance(program, WindowProgram)
        return general_form(program) if isinstance(program, BandProgram) else program


class FJoinDevice(_Builds, RtlDevice):
    """The paper's pipeline in our kernel, compiled by Verilator, with a model of its memory.

    Each program is a build of its own, band programs too, and takes Verilator and a C++ compiler
    some ten seconds or more. Options are those of :class:`penstock.sim.rtl_device.RtlDevice`.
    """

    name = "fjoin"
    key_widths = (32, 64)

    def open(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> Kernel:
        return super().open(self._built_in(program, modes), modes)


class FJoinAmaranthDevice(_Builds, AmaranthDevice):
    """The paper's pipeline in Amaranth's simulator, for few units and short tasks.

    Options are those of :class:`penstock.sim.amaranth_device.AmaranthDevice`, without ``trace``:
    there are no flits.
    """

    name = "fjoin-amaranth"
    key_widths = (8, 32)

    def open(self, program: AnyProgram, modes: frozenset[Mode] = PAIRS) -> Kernel:
        return super().open(self._built_in(program, modes), modes)
