"""A scheduled DAG as pipelined logic of exact widths."""

from __future__ import annotations

import re

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from penstock.errors import DeviceError
from penstock.expr.node import Expr, Op, walk
from penstock.types import Type

from .compare import at_most, is_simulation
from .delay import is_inversion, is_sign_test
from .schedule import Schedule


def shape_of(dtype: Type) -> Shape:
    """The smallest register for a type."""
    return signed(dtype.bits) if dtype.signed else unsigned(dtype.bits)


def key_layout(types: tuple[Type, ...]) -> data.StructLayout:
    """Prepared keys side by side: fields ``k0``, ``k1``, ..."""
    return data.StructLayout({f"k{i}": shape_of(dtype) for i, dtype in enumerate(types)})


class Datapath(wiring.Component):
    """Pipelined evaluation of a predicate, and of a value beside it.

    Takes new window keys in every cycle; the results follow ``schedule.latency`` cycles later.
    Nothing stalls. Stream keys must stay for ``schedule.hold`` cycles after the window keys that
    they meet.

    Parameters
    ----------
    schedule : Schedule
        The predicate, cut into stages.
    stream, window : tuple of Type
        Types of the keys.

    Members
    -------
    s, w : In
        Stream and window keys.
    valid : In(1)
        Whether the keys count.
    o : Out(1)
        Whether the keys of ``schedule.latency`` cycles ago counted and meet the predicate. Not
        registered.
    live, value : Out
        Whether the keys of ``schedule.latency`` cycles ago counted, and the schedule's value for
        them. Not registered; only where the schedule has a value.
    """

    s: data.View
    w: data.View
    valid: Signal
    o: Signal
    live: Signal
    value: Signal

    def __init__(
        self, schedule: Schedule, stream: tuple[Type, ...], window: tuple[Type, ...]
    ) -> None:
        self.schedule = schedule
        members = {
            "s": In(key_layout(stream)),
            "w": In(key_layout(window)),
            "valid": In(1),
            "o": Out(1),
        }
        if schedule.value is not None:
            members |= {"live": Out(1), "value": Out(shape_of(schedule.value.type))}
        super().__init__(members)

    def elaborate(self, platform: object) -> Module:
        m = Module()
        values: dict[tuple[Expr, int], Value] = {}

        def register(value: Value, name: str) -> Signal:
            # Reset would cost a control set per stage, and the value means nothing until then.
            later = Signal.like(value, name=name, reset_less=True)
            m.d.sync += later.eq(value)
            return later

        def compute(node: Expr, stage: int, name: str) -> Signal:
            value = Signal(shape_of(node.type), name=name)
            m.d.comb += value.eq(logic(m, node, [at(arg, stage) for arg in node.args], platform))
            return value

        def at(node: Expr, stage: int) -> Value:
            """The node's value as the logic of a stage sees it."""
            stage = self.schedule.seen_at(node, stage)
            if (node, stage) not in values:
                name = f"{names[node]}_{stage}"
                values[node, stage] = (
                    compute(node, stage, name)
                    if self.schedule.moves_on(node)
                    else register(at(node, stage - 1), name)
                )
            return values[node, stage]

        names: dict[Expr, str] = {}
        # A comparison with a round constant may not need the lowest bits; linters let such a
        # name pass.
        rounded = {
            arg
            for node in self.schedule.slots
            if node.op in (Op.LT, Op.LE) and any(arg.is_const for arg in node.args)
            for arg in node.args
        }
        for number, (node, slot) in enumerate(self.schedule.slots.items()):
            names[node] = f"n{number}_{_WORDS[node.op]}{'_unused_low' * (node in rounded)}"
            if node.is_const:
                values[node, 0] = Const(int(node.attr), shape_of(node.type))
                continue
            if node.op is Op.KEY:
                side, index = node.attr
                values[node, 0] = (self.s if side == "s" else self.w)[f"k{index}"]
                continue
            value = compute(node, slot.stage, names[node])
            for stage in range(slot.stage + 1, slot.ready + 1):
                value = register(value, f"{names[node]}_{stage}")
            values[node, slot.ready] = value

        live = self.valid
        for stage in range(self.schedule.latency):
            later = Signal(name=f"live_{stage + 1}")
            m.d.sync += later.eq(live)
            live = later
        latency = self.schedule.latency
        m.d.comb += self.o.eq(live & at(self.schedule.expr, latency))
        if self.schedule.value is not None:
            value = at(self.schedule.value, latency)
            m.d.comb += [self.live.eq(live), self.value.eq(value)]
        return m


def plain_logic(
    m: Module, expr: Expr, stream: data.View, window: data.View, platform: object = None
) -> Value:
    """A lowered DAG without stages, on the keys of both sides; for a platform as :func:`logic`."""
    values: dict[Expr, Value] = {}
    for node in walk(expr):
        if node.is_const:
            values[node] = Const(int(node.attr), shape_of(node.type))
        elif node.op is Op.KEY:
            side, index = node.attr
            values[node] = (stream if side == "s" else window)[f"k{index}"]
        else:
            value = Signal(shape_of(node.type), name=f"{_WORDS[node.op]}_{len(values)}_or_unused")
            m.d.comb += value.eq(logic(m, node, [values[arg] for arg in node.args], platform))
            values[node] = value
    return values[expr]


def logic(m: Module, node: Expr, a: list[Value], platform: object = None) -> Value:
    """One operation. The result may be wider than the node's register, whose bounds are exact.

    For :data:`penstock.hw.hls.compare.SIMULATION` it is written as the simulator's operators.
    """
    op = node.op
    if op is Op.ADD and len(a) == 3:
        if is_simulation(platform):
            return a[0] + a[1] + a[2]
        first, second = a[:2] if is_inversion(node.args[1]) else (a[1], a[0])
        return _sum(m, first, second, a[2])
    if op is Op.LE:
        return at_most(m, *a, shared=any(map(is_inversion, node.args)), platform=platform)
    if is_sign_test(node):
        return a[0] < 0
    if op is Op.LT:
        return ~at_most(m, a[1], a[0], platform=platform)
    if op in (Op.LEAST, Op.GREATEST):
        low, high = a if op is Op.LEAST else a[::-1]
        return Mux(at_most(m, a[0], a[1], platform=platform), low, high)
    if op in _TWO_OPERANDS:
        return _TWO_OPERANDS[op](a[0], a[1])
    if op in (Op.AND, Op.OR):
        return _junction(op, a)
    if op is Op.NEG:
        return -a[0]
    if op is Op.NOT:
        return ~a[0]
    if op is Op.BIT_NOT:
        return -1 - a[0]
    if op in (Op.SHL, Op.SHR):
        return _shift(op, a[0], a[1])
    if op is Op.CASE:
        value = a[-1]
        for condition, then in reversed(list(zip(a[:-1:2], a[1::2], strict=False))):
            value = Mux(condition, then, value)
        return value
    if op is Op.CAST:
        return a[0]
    raise DeviceError(f"{op.value} cannot be built: lower the predicate first")


def _junction(op: Op, a: list[Value]) -> Value:
    """AND or OR; of many in halves, since elaboration is recursive."""
    if len(a) > _FLAT:
        half = len(a) // 2
        a = [_junction(op, a[:half]), _junction(op, a[half:])]
    every = a[0]
    for value in a[1:]:
        every = every & value if op is Op.AND else every | value
    return every


#: Operands that are written one after the other.
_FLAT = 32
_WORDS = {op: re.sub(r"\W+", "", op.name.lower()) for op in Op}

_TWO_OPERANDS = {
    Op.ADD: lambda a, b: a + b,
    Op.SUB: lambda a, b: a - b,
    Op.MUL: lambda a, b: a * b,
    Op.BIT_AND: lambda a, b: a & b,
    Op.BIT_OR: lambda a, b: a | b,
    Op.BIT_XOR: lambda a, b: a ^ b,
    Op.EQ: lambda a, b: a == b,
}


def _sum(m: Module, a: Value, b: Value, carry: Value) -> Value:
    """``a + b + carry`` in one chain.

    As a difference, since a chain link takes its first operand as it is: it costs nothing to
    invert or select the bits of b.
    """
    inverse = ~b if b.shape().signed else Cat(~b, Const(1)).as_signed()
    difference = (a.shift_left(1) | carry) - (inverse.shift_left(1) | ~carry)
    # Linters take a name with `unused` in it as said on purpose: the lowest bit is dropped.
    total = Signal(difference.shape(), name="sum_above_unused_bit")
    m.d.comb += total.eq(difference)
    return total.shift_right(1)


def _shift(op: Op, value: Value, amount: Value) -> Value:
    if isinstance(amount, Const):
        by = amount.value
        return value.shift_left(by) if op is Op.SHL else value.shift_right(by)
    return value << amount if op is Op.SHL else value >> amount
