"""Two window joins in a row: a join of three streams (paper 4, section 5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from amaranth.hdl import Cat, Module, Signal, ValueLike
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, connect, flipped

from .config import WindowConfig
from .layout import Side, State, counters_layout, tuple_layout, word_layout
from .operator import WindowJoin


@dataclass(frozen=True)
class CascadeConfig:
    """Builds of two operators in a row, both for equality without timestamps.

    Parameters
    ----------
    first : WindowConfig
        Has one result per cycle.
    second : WindowConfig
        The payload of its side A has the bits of both payloads of the first.
    """

    first: WindowConfig
    second: WindowConfig

    def __post_init__(self) -> None:
        first, second = self.first, self.second
        if first.outputs != 1:
            raise ValueError(f"the first build must have one result per cycle, not {first.outputs}")
        if second.payload_a_bits != sum(first.payload_bits):
            raise ValueError(
                f"payload A of the second build must have {sum(first.payload_bits)} bits, those "
                f"of both payloads of the first, not {second.payload_a_bits}"
            )
        for name, build in (("first", first), ("second", second)):
            if build.is_band or build.time_bits:
                raise ValueError(
                    f"the {name} build must be for equality without timestamps, not {build!r}"
                )


class Cascade(wiring.Component):
    """Joins streams A and B, and what comes of them with C.

    The results of the first operator are the tuples of side A of the second, in the order in which
    they leave: its window over them has the latest ``rows_ab`` results. So ROWS of both mean what
    they mean in one operator, and so do both policies: where the second makes results wait, the
    first stops matching and its inputs wait or are shed; where it sheds, whole results of the
    first are dropped and counted.

    Parameters
    ----------
    config : CascadeConfig
    key : callable
        Takes a result of the first, a view with ``a`` and ``b``, and returns the key by which it is
        joined with C: some bits of the payloads.

    Members
    -------
    i_a, i_b, i_c : In(stream)
        Tuples. Those of C are of side B of the second.
    rows_a, rows_b, rows_ab, rows_c : In
        Sizes of the windows.
    shed : In(2)
        The policies of the first (bit 0) and of the second.
    o : Out(stream)
        Words of the second; payload ``a`` has that of A in its low bits and that of B above.
    o_idle : Out(1)
        All that was taken was matched, and all results have left.
    o_waits : Out(2)
        An operator waits for room at its output; bit 0 is the first.
    o_counters : Out
        Tuples that each operator admitted and shed, ``first`` and ``second``.
    """

    i_a: stream.Interface
    i_b: stream.Interface
    i_c: stream.Interface
    rows_a: Signal
    rows_b: Signal
    rows_ab: Signal
    rows_c: Signal
    shed: Signal
    o: stream.Interface
    o_idle: Signal
    o_waits: Signal
    o_counters: data.View

    def __init__(self, config: CascadeConfig, key: Callable[[data.View], ValueLike]) -> None:
        first, second = config.first, config.second
        self.first, self.second = WindowJoin(first), WindowJoin(second)
        self._key = key
        super().__init__(
            {
                "i_a": In(stream.Signature(tuple_layout(first, Side.A))),
                "i_b": In(stream.Signature(tuple_layout(first, Side.B))),
                "i_c": In(stream.Signature(tuple_layout(second, Side.B))),
                "rows_a": In(first.slot_bits + 1),
                "rows_b": In(first.slot_bits + 1),
                "rows_ab": In(second.slot_bits + 1),
                "rows_c": In(second.slot_bits + 1),
                "shed": In(2),
                "o": Out(stream.Signature(word_layout(second))),
                "o_idle": Out(1),
                "o_waits": Out(2),
                "o_counters": Out(
                    data.StructLayout(
                        {"first": counters_layout(first), "second": counters_layout(second)}
                    )
                ),
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.submodules.first = first = self.first
        m.submodules.second = second = self.second
        connect(m, flipped(self.i_a), first.i_a)
        connect(m, flipped(self.i_b), first.i_b)
        connect(m, flipped(self.i_c), second.i_b)
        connect(m, second.o, flipped(self.o))
        result = first.o.payload.results[0]
        m.d.comb += [
            first.rows_a.eq(self.rows_a),
            first.rows_b.eq(self.rows_b),
            second.rows_a.eq(self.rows_ab),
            second.rows_b.eq(self.rows_c),
            first.shed.eq(self.shed[0]),
            second.shed.eq(self.shed[1]),
            second.i_a.valid.eq(first.o.valid),
            first.o.ready.eq(second.i_a.ready),
            second.i_a.payload.payload.eq(Cat(result.a, result.b)),
            second.i_a.payload.key.eq(self._key(result)),
            # What leaves the first in a cycle is in the second in the next.
            self.o_idle.eq(first.o_idle & second.o_idle),
            self.o_waits.eq(
                Cat(
                    (join.o_state_a == State.WAIT) | (join.o_state_b == State.WAIT)
                    for join in (first, second)
                )
            ),
            self.o_counters.first.eq(first.o_counters),
            self.o_counters.second.eq(second.o_counters),
        ]
        return m
