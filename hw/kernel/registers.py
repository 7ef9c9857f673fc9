"""Control registers: what one is, where it lies, and those that every kernel has.

A kernel lists its registers once, in the order of their addresses; decoder, host table, C header,
documentation and ``kernel.xml`` follow from its :class:`RegisterMap`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

#: Bytes of the register file's address range, as Vitis gives every kernel.
RANGE_BYTES = 0x1000

#: Address of the first register that is no control register.
_FIRST = 0x10

#: Registers that an array has room for.
ARRAY_LENGTH = 8


class Access(Enum):
    """Who may do what to a register."""

    #: Part of the ap_ctrl_hs protocol, each bit with a rule of its own.
    CONTROL = "control"
    #: Written by the host; an argument of the kernel.
    ARGUMENT = "argument"
    #: Read by the host.
    STATUS = "status"


@dataclass(frozen=True)
class Register:
    """One register, or an array of 32-bit registers.

    Parameters
    ----------
    name : str
        Name, also that of the kernel's argument.
    text : str
        What it means.
    bits : int
        32; of an argument also 64: low word, then high word.
    access : Access
    is_array : bool
        Whether there are several, up to :data:`ARRAY_LENGTH`.
    fields : mapping of str to (int, str)
        Bits with a name, as bit number and meaning.
    """

    name: str
    text: str
    bits: int = 32
    access: Access = Access.ARGUMENT
    is_array: bool = False
    fields: Mapping[str, tuple[int, str]] = field(default_factory=dict)

    @property
    def stride(self) -> int:
        """Bytes from one register to the next, which Vitis keeps a word apart."""
        return self.bits // 8 + 4


def pointer(name: str, to: str) -> Register:
    """A register with an address in memory."""
    return Register(name, f"Address of {to}, a multiple of 64.", bits=64)


CTRL = Register(
    "CTRL",
    "Block control.",
    access=Access.CONTROL,
    fields={
        "ap_start": (0, "set to start; cleared when the task has ended"),
        "ap_done": (1, "a task has ended; cleared by reading"),
        "ap_idle": (2, "no task is running"),
        "ap_ready": (3, "the next task may be started; cleared by reading"),
        "auto_restart": (7, "start again at the end of each task"),
    },
)
GIER = Register(
    "GIER",
    "Global interrupt enable.",
    access=Access.CONTROL,
    fields={"enable": (0, "whether the interrupt is driven")},
)
IP_IER = Register(
    "IP_IER",
    "Interrupt enable.",
    access=Access.CONTROL,
    fields={"done": (0, "interrupt on ap_done"), "ready": (1, "interrupt on ap_ready")},
)
IP_ISR = Register(
    "IP_ISR",
    "Interrupt status; a 1 written toggles a bit.",
    access=Access.CONTROL,
    fields={"done": (0, "ap_done occurred"), "ready": (1, "ap_ready occurred")},
)
#: Registers of the ap_ctrl_hs protocol, a word each from address 0 on.
CONTROLS = (CTRL, GIER, IP_IER, IP_ISR)

RESULTS = pointer("results", "the results, which begin with the header")
TUPLE_COUNT = Register("tuple_count", "Number of tuples that the task reads.")
RESULT_WORDS = Register(
    "result_words", "Room for results behind the header, in words of the memory ports."
)
STATUS = Register(
    "status",
    "How the latest task ended, as in the header. Also where the header could not be written.",
    access=Access.STATUS,
)


@dataclass(frozen=True)
class RegisterMap:
    """The registers of a build.

    Parameters
    ----------
    own : tuple of Register
        Those besides :data:`CONTROLS`, in the order of their addresses.
    counts : mapping of str to int
        Registers of each array in this build.
    """

    own: tuple[Register, ...]
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def registers(self) -> tuple[Register, ...]:
        """All, in the order of their addresses."""
        return CONTROLS + self.own

    def offset(self, register: Register) -> int:
        """Address of a register, or of the first of an array."""
        if register in CONTROLS:
            return 4 * CONTROLS.index(register)
        before = self.own[: self.own.index(register)]
        return _FIRST + sum(r.stride * (ARRAY_LENGTH if r.is_array else 1) for r in before)

    def instances(self, register: Register) -> list[tuple[str, int]]:
        """Names and addresses of a register, or of an array's registers."""
        first = self.offset(register)
        if not register.is_array:
            return [(register.name, first)]
        return [
            (f"{register.name}_{index}", first + index * register.stride)
            for index in range(self.counts[register.name])
        ]

    def entries(self, access: Access) -> list[tuple[Register, str, int]]:
        """All registers of a kind, as (register, name, address)."""
        return [
            (register, name, offset)
            for register in self.registers
            if register.access is access
            for name, offset in self.instances(register)
        ]

    @property
    def arguments(self) -> list[tuple[Register, str, int]]:
        """The kernel's arguments, as (register, name, address)."""
        return self.entries(Access.ARGUMENT)

    @property
    def statuses(self) -> list[tuple[Register, str, int]]:
        """What the host may read, as (register, name, address)."""
        return self.entries(Access.STATUS)
