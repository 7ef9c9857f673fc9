"""The join kernel's description, from which its table, C header, kernel.xml and document follow."""

from __future__ import annotations

from typing import Any

from ..join.modes import CODES
from .config import LANES, RECORD_BITS, WORD_BYTES, KernelConfig, register_map
from .description import Description
from .kernel import KERNEL, PORTS, SHARED
from .layout import HEADER, PASS_SLOTS, Status, tuple_slots, value_slots, window_slots


def describe(config: KernelConfig) -> Description:
    """The description of a build."""
    least = config.least_result_words
    return Description(
        kernel=KERNEL,
        library="join",
        prefix="PENSTOCK",
        registers=register_map(config),
        ports=PORTS,
        shared=SHARED,
        status=Status,
        header=HEADER,
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
        "lanes": LANES,
        "record_bits": RECORD_BITS,
        "word_bytes": WORD_BYTES,
        "pass_slot_bits": PASS_SLOTS.bits,
        "tuple_slot_bits": tuple_slots(join).bits,
        "window_slot_bits": window_slots(join).bits,
        "least_result_words": config.least_result_words,
        "window_value_bits": join.value_bits,
        "operand_bits": join.operand_bits,
        "value_slot_bits": value_slots(join).bits if join.folding else 0,
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
