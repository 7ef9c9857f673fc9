"""The kernel's control registers, declared once.

Each class is a register; its docstring is its documentation. Decoder, host table, C header,
documentation and ``kernel.xml`` follow from the :class:`RegisterMap` of a kernel; :data:`REGISTERS`
are those of the join kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar

#: Bytes of the register file's address range, as Vitis gives every kernel.
RANGE_BYTES = 0x1000


class Access(Enum):
    """Who may do what to a register."""

    #: Part of the ap_ctrl_hs protocol, each bit with a rule of its own.
    CONTROL = "control"
    #: Written by the host; an argument of the kernel.
    ARGUMENT = "argument"
    #: Read by the host.
    STATUS = "status"


class Register:
    """One register, or an array of 32-bit registers.

    Attributes
    ----------
    name : str
        Name, also that of the kernel's argument.
    offset : int
        Address, in bytes.
    bits : int
        32, or 64: low word, then high word. Reading the low word of a status keeps the high word
        that belongs to it until that is read.
    access : Access
    port : str
        Memory port that a pointer points to.
    stride : int
        Bytes from one register of an array to the next; 0 for a single one.
    fields : dict
        Bits with a name, as bit number and meaning.
    """

    name: str
    offset: int
    bits: int = 32
    access: Access = Access.ARGUMENT
    port: str = ""
    stride: int = 0
    fields: ClassVar[dict[str, tuple[int, str]]] = {}


class Ctrl(Register):
    """Block control."""

    name, offset, access = "CTRL", 0x00, Access.CONTROL
    fields: ClassVar = {
        "ap_start": (0, "set to start; cleared when the task has ended"),
        "ap_done": (1, "a task has ended; cleared by reading"),
        "ap_idle": (2, "no task is running"),
        "ap_ready": (3, "the next task may be started; cleared by reading"),
        "auto_restart": (7, "start again at the end of each task"),
    }


class Gier(Register):
    """Global interrupt enable."""

    name, offset, access = "GIER", 0x04, Access.CONTROL
    fields: ClassVar = {"enable": (0, "whether the interrupt is driven")}


class IpIer(Register):
    """Interrupt enable."""

    name, offset, access = "IP_IER", 0x08, Access.CONTROL
    fields: ClassVar = {"done": (0, "interrupt on ap_done"), "ready": (1, "interrupt on ap_ready")}


class IpIsr(Register):
    """Interrupt status; a 1 written toggles a bit."""

    name, offset, access = "IP_ISR", 0x0C, Access.CONTROL
    fields: ClassVar = {"done": (0, "ap_done occurred"), "ready": (1, "ap_ready occurred")}


class Passes(Register):
    """Address of the task's passes, a multiple of 64."""

    name, offset, bits, port = "passes", 0x10, 64, "m_axi_gmem0"


class Tuples(Register):
    """Address of the stream tuples, a multiple of 64."""

    name, offset, bits, port = "tuples", 0x1C, 64, "m_axi_gmem0"


class Window(Register):
    """Address of the window, a multiple of 64."""

    name, offset, bits, port = "window", 0x28, 64, "m_axi_gmem1"


class Results(Register):
    """Address of the results, a multiple of 64: one header word, then records."""

    name, offset, bits, port = "results", 0x34, 64, "m_axi_gmem2"


class PassCount(Register):
    """Number of passes."""

    name, offset = "pass_count", 0x40


class TupleCount(Register):
    """Number of stream tuples."""

    name, offset = "tuple_count", 0x48


class WindowCount(Register):
    """Length of the window; no pass may end beyond it."""

    name, offset = "window_count", 0x50


class ResultWords(Register):
    """Room for results, in 512-bit words, without the header."""

    name, offset = "result_words", 0x58


class Table(Register):
    """Truth table of a band kernel, 32 entries per register, entry 0 in bit 0 of the first."""

    name, offset, stride = "table", 0x60, 8


class StatusCode(Register):
    """How the latest task ended, as in the header. Also where the header could not be written."""

    name, offset, access = "status", 0xA0, Access.STATUS


class ModeCode(Register):
    """What becomes of matches: the code of one of the build's modes, 0 to write them as records."""

    name, offset = "mode", 0xA8


#: All registers, in the order of their addresses.
REGISTERS: tuple[type[Register], ...] = (
    *(Ctrl, Gier, IpIer, IpIsr),
    *(Passes, Tuples, Window, Results),
    *(PassCount, TupleCount, WindowCount, ResultWords),
    Table,
    StatusCode,
    ModeCode,
)


@dataclass(frozen=True)
class RegisterMap:
    """The registers of a build.

    Parameters
    ----------
    registers : tuple of type
        In the order of their addresses.
    counts : mapping of str to int
        Registers of each array in this build.
    """

    registers: tuple[type[Register], ...]
    counts: Mapping[str, int] = field(default_factory=dict)

    def instances(self, register: type[Register]) -> list[tuple[str, int]]:
        """Names and addresses of a register, or of an array's registers."""
        if not register.stride:
            return [(register.name, register.offset)]
        return [
            (f"{register.name}_{index}", register.offset + index * register.stride)
            for index in range(self.counts[register.name])
        ]

    def entries(self, access: Access) -> list[tuple[type[Register], str, int]]:
        """All registers of a kind, as (register, name, address)."""
        return [
            (register, name, offset)
            for register in self.registers
            if register.access is access
            for name, offset in self.instances(register)
        ]

    @property
    def arguments(self) -> list[tuple[type[Register], str, int]]:
        """The kernel's arguments, as (register, name, address)."""
        return self.entries(Access.ARGUMENT)

    @property
    def statuses(self) -> list[tuple[type[Register], str, int]]:
        """What the host may read, as (register, name, address)."""
        return self.entries(Access.STATUS)
