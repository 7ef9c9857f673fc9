"""Cut a lowered DAG into pipeline stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count

from penstock.expr.node import Expr, Op, node, show, walk

from .delay import DelayModel, is_wire


@dataclass(frozen=True)
class Slot:
    """When a node computes and when its value can be used.

    Parameters
    ----------
    stage, start_ps : int
        Stage whose registers it reads (through other logic), and when its arguments arrive.
    ready, end_ps : int
        Stage in which its value exists, and when. ``ready > stage`` for an operation that takes
        longer than a stage: its registers stand behind it for the tool to move into it.
    """

    stage: int
    start_ps: int
    ready: int
    end_ps: int


@dataclass(frozen=True)
class Schedule:
    """A DAG cut into stages. Stage t is the logic between register ranks t and t + 1.

    Parameters
    ----------
    expr : Expr
        The lowered predicate.
    model : DelayModel
        Delays it was cut by.
    slots : mapping of Expr to Slot
        Every node of the DAG, arguments first.
    value : Expr, optional
        A lowered value beside the predicate, wanted in the same cycle.
    """

    expr: Expr
    model: DelayModel
    slots: Mapping[Expr, Slot]
    value: Expr | None = None

    @property
    def roots(self) -> tuple[Expr, ...]:
        """The results: the predicate, and the value if there is one."""
        return (self.expr,) if self.value is None else (self.expr, self.value)

    @property
    def latency(self) -> int:
        """Cycles from the inputs to the results, which are not registered."""
        return max(self.slots[root].ready for root in self.roots)

    @property
    def stages(self) -> int:
        return self.latency + 1

    @property
    def hold(self) -> int:
        """Cycles that stream keys must stay after the window keys they meet.

        A stream tuple stays in its unit, so its values are not delayed from stage to stage; that
        saves registers as long as no new tuple is loaded while an older window tuple is still
        in the pipeline.
        """
        return max(
            (
                slot.stage
                for node, slot in self.slots.items()
                if any(arg.sides == {"s"} for arg in node.args)
            ),
            default=0,
        )

    @property
    def register_bits(self) -> int:
        """Flip-flops between stages, without the ranks at the input and behind the result."""
        last_use = dict.fromkeys(self.slots, 0)
        last_use |= {root: self.latency for root in self.roots if not root.is_const}
        for current in reversed(list(self.slots)):
            used = last_use[current] if self.moves_on(current) else self.slots[current].stage
            for arg in current.args:
                last_use[arg] = max(last_use[arg], used)
        total = 0
        for current, slot in self.slots.items():
            if self.moves_on(current):
                continue
            delays = self.seen_at(current, max(last_use[current], slot.ready)) - slot.ready
            total += current.type.bits * (slot.ready - slot.stage + delays)
        return total

    def seen_at(self, node: Expr, stage: int) -> int:
        """Stage from whose end a later stage takes the node's value.

        A value that depends on the window changes in each cycle, so it moves from stage to stage. A
        value of the stream alone stays, behind at most one register.
        """
        ready = self.slots[node].ready
        if "w" in node.sides:
            return stage
        return min(stage, ready + 1 if node.sides and node.args else ready)

    def moves_on(self, node: Expr) -> bool:
        """Whether the node is made anew in each stage that uses it, from registered arguments."""
        return is_wire(node) and bool(node.args) and all("w" in arg.sides for arg in node.args)

    def lines(self) -> list[str]:
        """The stages as text, one line per operation; ``t0``, ``t1``, ... are earlier results.

        With a value, a line says which of the two results it gives.
        """
        results = {}
        if self.value is not None:
            results = {self.value: ", the value", self.expr: ", the predicate"}
        names: dict[Expr, Expr] = {}
        number = count()
        text: dict[int, list[str]] = {stage: [] for stage in range(self.stages)}
        for current, slot in self.slots.items():
            if not current.args:
                names[current] = current
                continue
            # Shown on its own: the text of a whole DAG grows exponentially.
            args = tuple(names[a] for a in current.args)
            if current.op is Op.LE and len(args) == 3:
                args = (node(Op.ADD, (args[0], args[2]), args[0].type), args[1])
            alone = node(current.op, args, current.type, current.attr)
            names[current] = name = node(Op.KEY, (), current.type, ("t", next(number)))
            bits = current.type.bits
            more = f", {slot.ready - slot.stage} stages more" if slot.ready > slot.stage else ""
            text[slot.stage].append(
                f"  {show(name)} = {show(alone)}: {bits} {'bit' if bits == 1 else 'bits'}, "
                f"{slot.start_ps} to {slot.end_ps} ps{more}{results.get(current, '')}"
            )
        return [line for stage in text for line in (f"stage {stage}", *text[stage])]


def schedule(
    expr: Expr,
    model: DelayModel | None = None,
    *,
    value: Expr | None = None,
    tail_ps: int = 0,
) -> Schedule:
    """Place every node as early as its arguments allow, chaining operations within a stage.

    Parameters
    ----------
    expr : Expr
        A lowered DAG (:func:`penstock.hw.hls.lower.lower`).
    model : DelayModel, optional
        Delays; those of a 300 MHz pipeline by default.
    value : Expr, optional
        A second lowered DAG, whose result is wanted in the same cycle.
    tail_ps : int
        Delay of the logic that the caller puts behind each result in the last stage.
    """
    model = model or DelayModel()
    roots = (expr,) if value is None else (expr, value)
    slots: dict[Expr, Slot] = {}
    for current in walk(*roots):
        delay = model.delay_ps(current)
        if current in roots:
            delay += tail_ps
        arrivals = [(slots[a].ready, slots[a].end_ps) for a in current.args if not a.is_const]
        stage, start = max(arrivals, default=(0, 0))
        if start + delay > model.budget_ps and start > 0:
            stage, start = stage + 1, 0
        if start + delay <= model.budget_ps:
            slots[current] = Slot(stage, start, stage, start + delay)
        else:
            slots[current] = Slot(stage, start, stage + -(-delay // model.budget_ps), 0)
    return Schedule(expr, model, slots, value)
