"""The memory-fed window kernel's description, from which its table, C header and others follow."""

from __future__ import annotations

from typing import Any

from ...kernel.config import LANES, WORD_BYTES
from ...kernel.description import Description
from .config import TUPLES_IN_FLIGHT, WindowKernelConfig
from .kernel import KERNEL, PORTS
from .layout import HEADER, RESULT_SLOTS, Status, item_slots
from .registers import MEMORY_REGISTERS, register_map
from .tables import table_words


def describe(config: WindowKernelConfig) -> Description:
    """The description of a build."""
    return Description(
        kernel=KERNEL,
        library="window",
        prefix="PENSTOCK_WINDOW",
        registers=register_map(config.window, MEMORY_REGISTERS),
        ports=PORTS,
        status=Status,
        header=HEADER,
        geometry=_geometry(config),
        constants={
            "TUPLES_IN_FLIGHT": (
                "result_words must take TUPLES_IN_FLIGHT * larger window + SPARE_RESULTS results.",
                TUPLES_IN_FLIGHT,
            ),
            "SPARE_RESULTS": ("See above; a word takes eight results.", config.spare_results),
        },
    )


def table(config: WindowKernelConfig) -> dict[str, Any]:
    """What host software reads of a build, see :meth:`Description.table`."""
    return describe(config).table()


def _geometry(config: WindowKernelConfig) -> dict[str, Any]:
    window = config.window
    return {
        "depth": window.depth,
        "banks": window.banks,
        "tests": window.tests,
        "key_bits": window.key_bits,
        "time_bits": window.time_bits,
        "parallel": window.parallel,
        "word_bytes": WORD_BYTES,
        "tuple_slot_bits": item_slots(window).bits,
        "result_slot_bits": RESULT_SLOTS.bits,
        "results_per_word": LANES,
        "tuples_in_flight": TUPLES_IN_FLIGHT,
        "spare_results": config.spare_results,
        "table_words": table_words(window),
    }
