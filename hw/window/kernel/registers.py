"""Control registers of the memory-fed window kernel, declared once."""

from __future__ import annotations

from typing import ClassVar

from penstock.hw.kernel.registers import Access, Ctrl, Gier, IpIer, IpIsr, Register, RegisterMap
from penstock.hw.window.kernel.config import WindowKernelConfig


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


#: All registers, in the order of their addresses.
REGISTERS: tuple[type[Register], ...] = (
    *(Ctrl, Gier, IpIer, IpIsr),
    *(Tuples, Results),
    *(TupleCount, HistoryCount, ResultWords),
    *(RowsA, RowsB, Before, After),
    *(TableA, TableB),
    *(StatusCode, OperatorState),
)


def register_map(config: WindowKernelConfig) -> RegisterMap:
    """Registers of a build."""
    words = config.table_words
    return RegisterMap(REGISTERS, {TableA.name: words, TableB.name: words})
