"""What a unit of an aggregate build keeps of its tuple's matches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from amaranth.hdl import Module, Signal, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..hls.compare import at_most
from .modes import Folding


@dataclass
class Folded:
    """Reference: the contents of a fold, one call per window tuple that was tested."""

    least: bool
    value: int = 0
    found: bool = False
    position: int = 0
    tested: int = 0

    def step(self, hit: bool, operand: int) -> None:
        """A window tuple was tested; it matches if ``hit``."""
        if hit and not self.least:
            self.value += operand
        elif hit and (not self.found or operand < self.value):
            self.value, self.position = operand, self.tested
        self.found |= hit
        self.tested += 1

    @staticmethod
    def of(least: bool, tests: Iterable[tuple[bool, int]]) -> Folded:
        """The fold of all window tuples of a range."""
        folded = Folded(least)
        for hit, operand in tests:
            folded.step(hit, operand)
        return folded


class Fold(wiring.Component):
    """Folds the operands of matches into one value: their sum, or the least of them.

    One match per cycle; a match is in ``o`` in the cycle after it came. Of equal operands the
    first one stays, so a position is the lowest.

    Parameters
    ----------
    folding : Folding
        The build's modes and widths.

    Members
    -------
    hit : In(1)
        The window tuple matches.
    operand : In
        Its value, signed. Only where ``folding.operand_bits``; 1 is added elsewhere.
    least : In(1)
        Keep the least instead of the sum. Only in builds that do both.
    live : In(1)
        A window tuple was tested, whether it matches or not. Only where ``folding.places``.
    clear : In(1)
        Begin anew; matches of this cycle do not count.
    o : Out
        What was folded since the last clear (``folding.layout``). Not defined before.

    Attributes
    ----------
    tested : Signal
        Window tuples since the last clear, where positions are kept. No port; proofs read it.
    """

    hit: Signal
    operand: Signal
    least: Signal
    live: Signal
    clear: Signal
    o: data.View

    def __init__(self, folding: Folding) -> None:
        self.folding = folding
        members = {"hit": In(1), "clear": In(1), "o": Out(folding.layout)}
        if folding.operand_bits:
            members["operand"] = In(signed(folding.operand_bits))
        if folding.adds and folding.keeps_least:
            members["least"] = In(1)
        if folding.places:
            members["live"] = In(1)
        super().__init__(members)
        self.tested = Signal(folding.position_bits, reset_less=True)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        folding = self.folding
        folded = Signal(folding.layout, reset_less=True)
        m.d.comb += self.o.eq(folded)
        if folding.value_bits:
            self._value(m, folded)
        if folding.finds:
            with m.If(self.hit):
                m.d.sync += folded.found.eq(1)
            with m.If(self.clear):
                m.d.sync += folded.found.eq(0)
        return m

    def _value(self, m: Module, folded: data.View) -> None:
        folding, value = self.folding, folded.value
        operand = self.operand if folding.operand_bits else 1
        take = Signal()
        m.d.comb += take.eq(self.hit)
        if folding.keeps_least:
            kept = value[: folding.operand_bits].as_signed()
            better = ~folded.found | ~at_most(m, kept, self.operand)
            m.d.comb += take.eq(self.hit & ((~self.least | better) if folding.adds else better))
        if folding.places:
            tested = self.tested
            with m.If(self.live):
                m.d.sync += tested.eq(tested + 1)
            with m.If(take):
                m.d.sync += folded.position.eq(tested)
            with m.If(self.clear):
                m.d.sync += tested.eq(0)
        if not folding.adds:
            result = operand
        elif not folding.keeps_least:
            result = value + operand
        else:
            # Adding to nothing keeps the operand: no multiplexer behind the adder.
            result = operand + (value & ~self.least.replicate(len(value)))
        with m.If(take):
            m.d.sync += value.eq(result)
        if folding.adds:
            with m.If(self.clear):
                m.d.sync += value.eq(0)
