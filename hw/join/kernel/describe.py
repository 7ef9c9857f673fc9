"""The join kernel's registers and ports, and all that describes a build of it."""

from __future__ import annotations

from typing import Any

from ...kernel.description import Description, Port
from ...kernel.registers import (
    RESULT_WORDS,
    RESULTS,
    STATUS,
    TUPLE_COUNT,
    Register,
    RegisterMap,
    pointer,
)
from ...kernel.status import Status
from ..modes import CODES
from .config import RECORD_BITS, KernelConfig
from .layout import COUNTERS, HEADER, pass_slots, tuple_slots, value_slots, window_slots

#: Name of the module, and of the kernel.
KERNEL = "penstock_kernel"

PASSES = pointer("passes", "the task's passes")
TUPLES = pointer("tuples", "the stream tuples")
WINDOW = pointer("window", "the window")
PASS_COUNT = Register("pass_count", "Number of passes.")
WINDOW_COUNT = Register("window_count", "Length of the window; no pass may end beyond it.")
TABLE = Register(
    "table",
    "Truth table of a band kernel, 32 entries per register, entry 0 in bit 0 of the first.",
    is_array=True,
)
MODE = Register(
    "mode",
    "What becomes of matches: the code of one of the build's modes, 0 to write them as records.",
)

#: Registers, in the order of their addresses.
REGISTERS = (
    *(PASSES, TUPLES, WINDOW, RESULTS),
    *(PASS_COUNT, TUPLE_COUNT, WINDOW_COUNT, RESULT_WORDS),
    *(TABLE, STATUS, MODE),
)

#: Memory ports. A window is brought to a card once, for all kernels.
PORTS = {
    "m_axi_gmem0": Port("passes and stream tuples", (PASSES, TUPLES)),
    "m_axi_gmem1": Port("window", (WINDOW,), is_shared=True),
    "m_axi_gmem2": Port("results", (RESULTS,), writes=True),
}


def describe(config: KernelConfig) -> Description:
    """The description of a build."""
    least = config.least_result_words
    return Description(
        kernel=KERNEL,
        library="join",
        prefix="PENSTOCK",
        registers=RegisterMap(REGISTERS, {TABLE.name: config.table_words}),
        sizes=config,
        ports=PORTS,
        status=tuple(s for s in Status if s not in (Status.BAD_HISTORY, Status.BAD_ROWS)),
        header=HEADER,
        counters=COUNTERS,
        room="words",
        geometry=_geometry(config),
        modes={mode.name: CODES[mode] for mode in CODES if mode in config.join.modes},
        constants={"LEAST_RESULT_WORDS": ("Smallest value of result_words.", least)},
    )


def table(config: KernelConfig) -> dict[str, Any]:
    """What host software reads of a build, see :meth:`Description.table`."""
    return describe(config).table()


def _geometry(config: KernelConfig) -> dict[str, Any]:
    join = config.join
    return {
        "pipelines": config.pipelines,
        "batched": join.batched,
        "units": join.units,
        "blocks": join.blocks,
        "units_per_block": join.units_per_block,
        "tests": join.tests,
        "key_bits": join.key_bits if join.is_band else 0,
        "stream_key_bits": _stream_widths(config),
        "window_key_bits": _window_widths(config),
        "ordinal_bits": join.ordinal_bits,
        "lanes": config.lanes,
        "record_bits": RECORD_BITS,
        "pass_slot_bits": pass_slots(config).bits,
        "tuple_slot_bits": tuple_slots(config).bits,
        "window_slot_bits": window_slots(config).bits,
        "least_result_words": config.least_result_words,
        "window_value_bits": join.value_bits,
        "operand_bits": join.operand_bits,
        "value_slot_bits": value_slots(config).bits if join.folding else 0,
        "value_fields": join.folding.fields if join.folding else {},
    }


def _stream_widths(config: KernelConfig) -> list[int]:
    join = config.join
    if join.program is None:
        return [join.key_bits] * (2 * join.tests)
    return [dtype.bits for dtype in join.program.stream]


def _window_widths(config: KernelConfig) -> list[int]:
    join = config.join
    if join.program is None:
        return [join.key_bits] * join.tests
    return [dtype.bits for dtype in join.program.window]
