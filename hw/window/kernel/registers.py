"""Control registers of the window kernels, declared once.

What both kernels have is at the same address in both.
"""

from __future__ import annotations

from typing import ClassVar

from ...kernel.registers import Access, Ctrl, Gier, IpIer, IpIsr, Register, RegisterMap
from ..config import WindowConfig
from .tables import table_words


class Tuples(Register):
    """Address of the tuples of both sides in order of arrival, a multiple of 64."""

    name, offset, bits, port = "tuples", 0x10, 64, "m_axi_gmem0"


class Results(Register):
    """Address of the results, a multiple of 64: one header word, then results."""

    name, offset, bits, port = "results", 0x1C, 64, "m_axi_gmem1"


class TupleCount(Register):
    """Number of tuples, the history included."""

    name, offset = "tuple_count", 0x28


class HistoryCount(Register):
    """Tuples at the start that enter their windows and are not matched."""

    name, offset = "history_count", 0x30


class ResultWords(Register):
    """Room for results, in 512-bit words, without the header."""

    name, offset = "result_words", 0x38


class RowsA(Register):
    """Size of the window over side A, up to the depth of the build."""

    name, offset = "rows_a", 0x40


class RowsB(Register):
    """Size of the window over side B, up to the depth of the build."""

    name, offset = "rows_b", 0x48


class Before(Register):
    """In builds with timestamps: by how much b.time may be below a.time."""

    name, offset, bits = "before", 0x50, 64


class After(Register):
    """In builds with timestamps: by how much b.time may be above a.time."""

    name, offset, bits = "after", 0x5C, 64


class TableA(Register):
    """Truth table by which tuples of A are matched, 32 entries per register."""

    name, offset, stride = "table_a", 0x68, 8


class TableB(Register):
    """Truth table by which tuples of B are matched, 32 entries per register."""

    name, offset, stride = "table_b", 0xA8, 8


class StatusCode(Register):
    """How the latest task ended, as in the header. Also where the header could not be written."""

    name, offset, access = "status", 0xE8, Access.STATUS


class OperatorState(Register):
    """What the operator does now."""

    name, offset, access = "state", 0xF0, Access.STATUS
    fields: ClassVar = {
        "match_a": (0, "a tuple of A is being matched"),
        "wait_a": (1, "it waits for room at the output"),
        "match_b": (2, "a tuple of B is being matched"),
        "wait_b": (3, "it waits for room at the output"),
        "output_stalled": (4, "a result is on offer and is not taken"),
        "idle": (5, "all that was taken was matched, and all results have left"),
    }


class Shed(Register):
    """What becomes of tuples that the operator cannot take: 0 they wait, 1 they are dropped."""

    name, offset = "shed", 0xF8


class Stop(Register):
    """1: take no more tuples, and end when all results have left. Write 0 before the start."""

    name, offset = "stop", 0x100


class Cycles(Register):
    """Cycles since the start."""

    name, offset, bits, access = "cycles", 0x108, 64, Access.STATUS


class AdmittedA(Register):
    """Tuples of A that were matched and entered their window."""

    name, offset, bits, access = "admitted_a", 0x110, 64, Access.STATUS


class AdmittedB(Register):
    """Tuples of B that were matched and entered their window."""

    name, offset, bits, access = "admitted_b", 0x118, 64, Access.STATUS


class ShedA(Register):
    """Tuples of A that were dropped."""

    name, offset, bits, access = "shed_a", 0x120, 64, Access.STATUS


class ShedB(Register):
    """Tuples of B that were dropped."""

    name, offset, bits, access = "shed_b", 0x128, 64, Access.STATUS


class ResultsLeft(Register):
    """Results that left."""

    name, offset, bits, access = "results", 0x130, 64, Access.STATUS


class OutputWaits(Register):
    """Cycles in which a match unit waited for room at the output."""

    name, offset, bits, access = "output_waits", 0x138, 64, Access.STATUS


#: Registers of the memory-fed kernel, in the order of their addresses.
MEMORY_REGISTERS: tuple[type[Register], ...] = (
    *(Ctrl, Gier, IpIer, IpIsr),
    *(Tuples, Results),
    *(TupleCount, HistoryCount, ResultWords),
    *(RowsA, RowsB, Before, After),
    *(TableA, TableB),
    *(StatusCode, OperatorState),
)

#: Registers of the kernel with stream ports.
STREAM_REGISTERS: tuple[type[Register], ...] = (
    *(Ctrl, Gier, IpIer, IpIsr),
    *(RowsA, RowsB, Before, After),
    *(TableA, TableB),
    OperatorState,
    *(Shed, Stop),
    *(Cycles, AdmittedA, AdmittedB, ShedA, ShedB, ResultsLeft, OutputWaits),
)


def register_map(config: WindowConfig, registers: tuple[type[Register], ...]) -> RegisterMap:
    """Registers of a build of either kernel."""
    words = table_words(config)
    return RegisterMap(registers, {TableA.name: words, TableB.name: words})
