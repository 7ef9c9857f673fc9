"""The window kernel's registers and ports, and all that describes a build of it."""

from __future__ import annotations

from typing import Any

from ...kernel.description import Description, Port
from ...kernel.registers import (
    RESULT_WORDS,
    RESULTS,
    STATUS,
    TUPLE_COUNT,
    Access,
    Register,
    RegisterMap,
    pointer,
)
from ...kernel.status import Status
from .config import TUPLES_IN_FLIGHT, WindowKernelConfig
from .layout import COUNTERS, HEADER, item_slots, result_slots
from .tables import table_words

#: Name of the module, and of the kernel.
KERNEL = "penstock_window_kernel"

TUPLES = pointer("tuples", "the tuples of both sides in order of arrival")
HISTORY_COUNT = Register(
    "history_count", "Tuples at the start that enter their windows and are not matched."
)
ROWS_A = Register("rows_a", "Size of the window over side A, up to the depth of the build.")
ROWS_B = Register("rows_b", "Size of the window over side B, up to the depth of the build.")
BEFORE = Register(
    "before", "In builds with timestamps: by how much b.time may be below a.time.", bits=64
)
AFTER = Register(
    "after", "In builds with timestamps: by how much b.time may be above a.time.", bits=64
)
TABLE_A = Register(
    "table_a",
    "Truth table by which tuples of A are matched, 32 entries per register.",
    is_array=True,
)
TABLE_B = Register(
    "table_b",
    "Truth table by which tuples of B are matched, 32 entries per register.",
    is_array=True,
)
STATE = Register(
    "state",
    "What the operator does now.",
    access=Access.STATUS,
    fields={
        "match_a": (0, "a tuple of A is being matched"),
        "wait_a": (1, "it waits for room at the output"),
        "match_b": (2, "a tuple of B is being matched"),
        "wait_b": (3, "it waits for room at the output"),
        "output_stalled": (4, "a result is on offer and is not taken"),
        "idle": (5, "all that was taken was matched, and all results have left"),
    },
)

#: Registers, in the order of their addresses.
REGISTERS = (
    *(TUPLES, RESULTS),
    *(TUPLE_COUNT, HISTORY_COUNT, RESULT_WORDS),
    *(ROWS_A, ROWS_B, BEFORE, AFTER),
    *(TABLE_A, TABLE_B),
    *(STATUS, STATE),
)

#: Memory ports.
PORTS = {
    "m_axi_gmem0": Port("tuples of both sides", (TUPLES,)),
    "m_axi_gmem1": Port("results", (RESULTS,), writes=True),
}

#: Statuses of the join kernel alone.
_FOREIGN = (Status.BAD_PASS, Status.BAD_RANGE, Status.BAD_MODE)


def describe(config: WindowKernelConfig) -> Description:
    """The description of a build."""
    words = table_words(config.window)
    return Description(
        kernel=KERNEL,
        library="window",
        prefix="PENSTOCK_WINDOW",
        registers=RegisterMap(REGISTERS, {TABLE_A.name: words, TABLE_B.name: words}),
        sizes=config,
        ports=PORTS,
        status=tuple(status for status in Status if status not in _FOREIGN),
        header=HEADER,
        counters=COUNTERS,
        room="results",
        geometry=_geometry(config),
        constants={
            "TUPLES_IN_FLIGHT": (
                "result_words must take TUPLES_IN_FLIGHT * larger window + SPARE_RESULTS results.",
                TUPLES_IN_FLIGHT,
            ),
            "SPARE_RESULTS": ("See above.", config.spare_results),
        },
    )


def table(config: WindowKernelConfig) -> dict[str, Any]:
    """What host software reads of a build, see :meth:`Description.table`."""
    return describe(config).table()


def _geometry(config: WindowKernelConfig) -> dict[str, Any]:
    window, slots = config.window, result_slots(config)
    return {
        "depth": window.depth,
        "banks": window.banks,
        "tests": window.tests,
        "key_bits": window.key_bits,
        "time_bits": window.time_bits,
        "parallel": window.parallel,
        "tuple_slot_bits": item_slots(config).bits,
        "result_slot_bits": slots.bits,
        "results_per_word": 1 << slots.per_word_log2,
        "tuples_in_flight": TUPLES_IN_FLIGHT,
        "spare_results": config.spare_results,
        "table_words": table_words(window),
    }
