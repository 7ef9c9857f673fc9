"""State inside a block, which inductive proofs speak of.

A proof by induction begins in any state that its assertions allow. Assertions about ports alone
allow states that no run reaches, so such proofs assert properties of registers as well.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Const, Elaboratable, Fragment, Module, Mux, Signal, Value

from tests.hw.formal.properties import Assert


class Inside:
    """An elaborated block, or a submodule of one.

    Attributes
    ----------
    fragment : Fragment
        What to add to the proof, in place of the block.
    """

    def __init__(self, fragment: Any) -> None:
        self.fragment = fragment  # Amaranth's stubs do not know what is in one
        self._signals: dict[str, list[Signal]] = {}
        for statements in fragment.statements.values():
            for signal in statements._lhs_signals():
                self._signals.setdefault(signal.name, []).append(signal)

    @staticmethod
    def of(block: Elaboratable) -> Inside:
        """Elaborate a block."""
        return Inside(Fragment.get(block, "formal"))

    def __getitem__(self, name: str) -> Signal:
        """The signal of that name that the block drives.

        Raises
        ------
        KeyError
            There is none, or more than one.
        """
        found = self._signals.get(name, [])
        if len(found) != 1:
            raise KeyError(f"the block drives {len(found)} signals named {name}, not one")
        return found[0]

    def part(self, name: str) -> Inside:
        """A submodule, or a memory."""
        (found,) = (part for part, named, _ in self.fragment.subfragments if named == name)
        return Inside(found)

    def ongoing(self, state: str) -> Value:
        """Whether the block's state machine is in this state."""
        return self["fsm_state"] == self.fragment.generated["fsm"].encoding[state]

    def stored(self, m: Module, name: str, index: Value) -> Value:
        """The word of a memory at an index."""
        memory = self.part(name).fragment
        address, word = Signal(range(memory._data.depth)), Signal(memory._data.shape)
        m.d.comb += address.eq(index)
        memory.read_port(domain="comb", addr=address, data=word, en=Const(1), transparent_for=())
        return word


class Items:
    """The items in a FIFO of Amaranth's library; asserts that its pointers and level agree.

    Parameters
    ----------
    m : Module
        The proof.
    fifo : Inside
        A ``SyncFIFO``, or a ``SyncFIFOBuffered`` whose oldest item may be in its output register.
    depth : int
        Its depth, 3 at least if it is buffered.
    buffered : bool
        Which of the two it is.
    """

    def __init__(self, m: Module, fifo: Inside, depth: int, *, buffered: bool = True) -> None:
        self._m, self._fifo = m, fifo
        self._places = depth - buffered
        self.level = fifo["level"]
        #: Whether the oldest item is in the output register.
        self._out: Value = fifo["r_rdy"] if buffered else Const(0)
        stored = fifo["inner_level"] if buffered else self.level
        produce, consume = fifo["produce"], fifo["consume"]
        m.d.comb += [
            Assert(stored <= self._places),
            Assert((produce < self._places) & (consume < self._places)),
            Assert(produce == self._wrapped(consume + stored)),
        ]
        if buffered:
            # The register is filled as soon as there is an item.
            m.d.comb += Assert(self._out | (stored <= 1))

    def __getitem__(self, index: Value | int) -> Value:
        """The item at an index, the oldest at 0; any value if there are not as many."""
        place = self._wrapped(self._fifo["consume"] + index - self._out)
        stored = self._fifo.stored(self._m, "storage", place)
        return Mux(self._out & (Value.cast(index) == 0), self._fifo["r_data"], stored)

    def _wrapped(self, place: Value) -> Value:
        """A place below twice the number of places."""
        return Mux(place >= self._places, place - self._places, place)
