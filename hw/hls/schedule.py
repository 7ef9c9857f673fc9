"""Cut a lowered DAG into pipeline stages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.expr.node import Expr, Op, show, walk
from penstock.hw.hls.delay import DelayModel


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
    """

    expr: Expr
    model: DelayModel
    slots: Mapping[Expr, Slot]

    @property
    def latency(self) -> int:
        """Cycles from the inputs to the result, which is not registered."""
        return self.slots[self.expr].ready

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
        for node, slot in self.slots.items():
            for arg in node.args:
                last_use[arg] = max(last_use[arg], slot.stage)
        total = 0
        for node, slot in self.slots.items():
            total += node.type.bits * (slot.ready - slot.stage)
            ranks = max(last_use[node] - slot.ready, 0)
            total += node.type.bits * (ranks if self.moves(node) else min(ranks, self._rank(node)))
        return total

    @staticmethod
    def moves(node: Expr) -> bool:
        """Whether the value is another one in each cycle, so that delays need registers."""
        return "w" in node.sides

    @staticmethod
    def _rank(node: Expr) -> int:
        return 1 if node.args else 0

    def nodes_of(self, stage: int) -> list[Expr]:
        """Operations that start in a stage, arguments first."""
        return [node for node, slot in self.slots.items() if node.args and slot.stage == stage]

    def lines(self) -> list[str]:
        """The stages as text, one line per operation."""
        text = []
        for stage in range(self.stages):
            text.append(f"stage {stage}")
            for node in self.nodes_of(stage):
                slot = self.slots[node]
                more = f", {slot.ready - stage} more stages" if slot.ready > stage else ""
                bits = node.type.bits
                text.append(
                    f"  {_label(node)}: {bits} {'bit' if bits == 1 else 'bits'}, "
                    f"{slot.start_ps} to {slot.end_ps} ps{more}"
                )
        return text


def schedule(expr: Expr, model: DelayModel | None = None, *, tail_ps: int = 0) -> Schedule:
    """Place every node as early as its arguments allow, chaining operations within a stage.

    Parameters
    ----------
    expr : Expr
        A lowered DAG (:func:`penstock.hw.hls.lower.lower`).
    model : DelayModel, optional
        Delays; those of a 300 MHz pipeline by default.
    tail_ps : int
        Delay of the logic that the caller puts behind the result in the last stage.
    """
    model = model or DelayModel()
    slots: dict[Expr, Slot] = {}
    for node in walk(expr):
        delay = model.delay_ps(node)
        if node is expr:
            delay += tail_ps
        arrivals = [(slots[arg].ready, slots[arg].end_ps) for arg in node.args if not arg.is_const]
        stage, start = max(arrivals, default=(0, 0))
        if start + delay > model.budget_ps and start > 0:
            stage, start = stage + 1, 0
        if start + delay <= model.budget_ps:
            slots[node] = Slot(stage, start, stage, start + delay)
        else:
            slots[node] = Slot(stage, start, stage + -(-delay // model.budget_ps), 0)
    return Schedule(expr, model, slots)


def _label(node: Expr) -> str:
    text = show(node)
    # A deep node would print its whole history; its operation and arguments' shapes are enough.
    return text if len(text) <= 60 or node.op is Op.KEY else f"{node.op.value} of {len(node.args)}"
