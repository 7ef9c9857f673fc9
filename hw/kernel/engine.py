"""What a shell runs: an operator that memory feeds."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from .axi import ReadPort, read_port
from .control import arguments_layout
from .description import Description
from .status import Status

#: Width of numbers of results: of eight times the words that a register counts.
ROOM_BITS = 36


_ORDERS = ("i_start", "i_room", "i_halt", "i_flush", "i_clear")


class Engine(wiring.Component):
    """An operator with what feeds it and what packs its results, for :class:`.shell.Shell`.

    Parameters
    ----------
    description : Description
        The kernel.

    Members
    -------
    i_arguments : In
        Arguments; they do not change from two cycles before a task to its end.
    i_start : In(1)
        Run a task: its arguments are none of :meth:`refusals`.
    i_room : In(1)
        There is room for the results of more; while not, nothing may be begun.
    i_halt : In(1)
        Begin nothing more; held until the task has ended.
    i_flush : In(1)
        The task has ended: ask memory for no more, and let all results out.
    i_clear : In(1)
        Forget everything; while ``i_flush``, when ``o_idle`` and ``o_empty``.
    o_ended : Out(1)
        Nothing is being done for the task any more; its results may not have left.
    o_failed : Out(1)
        The task must be halted.
    o_status : Out
        How the task ended, where memory gave no error; from the end on.
    o_read_error : Out(1)
        Memory answered a read with an error since the last clear.
    o_idle : Out(1)
        No word is on its way from memory.
    o : Out(stream)
        Words with results.
    o_empty : Out(1)
        All results so far have left.
    o_capacity, o_reserve, o_least : Out(36)
        Results that there is room for, as the description's ``room`` counts them; so many must
        have room for more to be begun; so many must have room at the start.
    o_steps : Out
        What each of the description's counters adds in this cycle.
    o_fields : Out
        The header's other fields, from the end on, but for the status.
    o_m_axi_... : Out
        Each port that reads.
    o_... : Out
        Each register that the host reads, but for the status.
    """

    i_arguments: data.View
    i_start: Signal
    i_room: Signal
    i_halt: Signal
    i_flush: Signal
    i_clear: Signal
    o_ended: Signal
    o_failed: Signal
    o_status: Signal
    o_read_error: Signal
    o_idle: Signal
    o: stream.Interface
    o_empty: Signal
    o_capacity: Signal
    o_reserve: Signal
    o_least: Signal
    o_steps: data.View
    o_fields: data.View

    def __init__(self, description: Description) -> None:
        self.description = description
        word_bits, counted = description.sizes.word_bits, description.counters
        fields = {n: b for n, b in description.header.items() if n not in counted}
        del fields["status"]
        super().__init__(
            {
                "i_arguments": In(arguments_layout(description.registers)),
                **{name: In(1) for name in _ORDERS},
                **{name: Out(1) for name in ("o_ended", "o_failed", "o_read_error", "o_idle")},
                "o_status": Out(Status),
                "o": Out(stream.Signature(word_bits)),
                "o_empty": Out(1),
                **{name: Out(ROOM_BITS) for name in ("o_capacity", "o_reserve", "o_least")},
                "o_steps": Out(data.StructLayout(dict(counted))),
                "o_fields": Out(data.StructLayout(fields)),
                **{f"o_{name}": Out(read_port(word_bits)) for name in description.reads},
                **{f"o_{name}": Out(bits) for name, bits in description.watched.items()},
            }
        )

    def refusals(self, given: data.View) -> Sequence[tuple[Value, Status]]:
        """What may be wrong with arguments, but for addresses and room; the first one counts."""
        raise NotImplementedError

    def read(self, name: str) -> ReadPort:
        """A port that reads, by its name in the description."""
        return getattr(self, f"o_{name}")

    def watched(self, name: str) -> Signal:
        """The value of a register that the host reads."""
        return getattr(self, f"o_{name}")

    def elaborate(self, platform: object) -> Module:
        raise NotImplementedError
