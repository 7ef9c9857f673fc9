"""A small explicit-state model checker: every interleaving of state machines, breadth first.

A model says which steps a state has, what must hold in every state, and where a run may end. The
explorer visits each state once and shows the shortest way to the first one that breaks a rule.
States may be values, or copies of the real machines with a key that tells them apart.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

S = TypeVar("S")
_S = TypeVar("_S", contravariant=True)

#: What a step is called in the way to a state, and what makes the state after it. The state
#: before must not change: machines are copied within.
Step = tuple[str, Callable[[], S]]

#: States, at most, unless the caller says otherwise. Without a limit a model that counts
#: something up for ever would fill the memory.
MOST_STATES = 1_000_000


class Model(Protocol[S]):
    """What the explorer asks about a system."""

    def steps(self, state: S) -> Iterable[Step[S]]:
        """All that can happen next; a step that changes nothing may be among them."""
        ...

    def problem(self, state: S) -> str | None:
        """Which invariant the state breaks; None if all hold."""
        ...

    def is_end(self, state: S) -> bool:
        """Whether a run may end here: all is done, nobody waits."""
        ...

    def key(self, state: S) -> Hashable:
        """What tells states apart; all that later behaviour depends on, and nothing else."""
        ...


class ViolationError(AssertionError):
    """A state breaks a rule.

    Parameters
    ----------
    problem : str
    way : list of str
        Steps from the first state, a shortest way.
    """

    def __init__(self, problem: str, way: list[str]) -> None:
        self.problem = problem
        self.way = way
        steps = "".join(f"\n  {number}. {step}" for number, step in enumerate(way, 1))
        super().__init__(f"{problem}, after {len(way)} steps:{steps}")


class TooManyStatesError(RuntimeError):
    """The limit is reached, so nothing is proven."""


@dataclass(frozen=True, kw_only=True)
class Explored:
    """What an exploration has seen.

    Parameters
    ----------
    states, steps : int
        Different states, and steps between them.
    ends : int
        States in which a run may end.
    depth : int
        Steps of the shortest way to the farthest state.
    seconds : float
    """

    states: int
    steps: int
    ends: int
    depth: int
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.states:,} states, {self.steps:,} steps, {self.ends:,} ends, "
            f"depth {self.depth}, {self.seconds:.1f} s"
        )


class _Graph(Generic[S]):
    """The states seen, how each was first reached, and where steps lead back from."""

    def __init__(self) -> None:
        self.number: dict[Hashable, int] = {}
        self.reached: list[tuple[int, str]] = []
        self.before: list[list[int]] = []
        self.depth: list[int] = []

    def add(self, key: Hashable, parent: int, label: str) -> int:
        number = self.number[key] = len(self.reached)
        self.reached.append((parent, label))
        self.before.append([])
        self.depth.append(self.depth[parent] + 1 if parent >= 0 else 0)
        return number

    def way(self, number: int) -> list[str]:
        """Labels of the steps to a state."""
        labels = []
        while number >= 0:
            number, label = self.reached[number]
            labels.append(label)
        return labels[-2::-1]  # the first state was reached by no step

    def far_from(self, ends: Iterable[int]) -> int | None:
        """The first state from which no way leads to any of the ends; None if there is none."""
        waiting = list(ends)
        near = set(waiting)
        while waiting:
            for number in self.before[waiting.pop()]:
                if number not in near:
                    near.add(number)
                    waiting.append(number)
        return next((n for n in range(len(self.reached)) if n not in near), None)


def explore(
    model: Model[S], first: S, *, most_states: int = MOST_STATES, ends_reached: bool = True
) -> Explored:
    """Visit every state that can be reached from the first one.

    Parameters
    ----------
    model : Model
    first : state
    most_states : int
    ends_reached : bool
        Whether some way must lead from each state to an end, so that no circle of steps that
        achieve nothing counts as progress.

    Raises
    ------
    ViolationError
        A state breaks an invariant; a step raises; no step leads on from a state that is no end
        (a deadlock); or no way leads from it to an end.
    TooManyStatesError
    """
    began = time.monotonic()
    graph = _Graph[S]()
    steps = 0
    ends = []
    waiting = deque([(first, graph.add(model.key(first), -1, ""))])
    _check(model, first, graph, 0)
    while waiting:
        state, number = waiting.popleft()
        is_end = model.is_end(state)
        if is_end:
            ends.append(number)
        leads_on = False
        for label, make in model.steps(state):
            try:
                following = make()
            except Exception as cause:
                way = [*graph.way(number), label]
                raise ViolationError(f"{type(cause).__name__}: {cause}", way) from cause
            steps += 1
            key = model.key(following)
            known = graph.number.get(key)
            if known is None:
                known = graph.add(key, number, label)
                if known >= most_states:
                    raise TooManyStatesError(f"more than {most_states:,} states: raise the limit")
                _check(model, following, graph, known)
                waiting.append((following, known))
            if known != number:
                leads_on = True
                graph.before[known].append(number)
        if not leads_on and not is_end:
            raise ViolationError("deadlock: no step leads on", graph.way(number))
    if ends_reached and (lost := graph.far_from(ends)) is not None:
        raise ViolationError("no way leads to an end", graph.way(lost))
    return Explored(
        states=len(graph.reached),
        steps=steps,
        ends=len(ends),
        depth=max(graph.depth),
        seconds=time.monotonic() - began,
    )


def _check(model: Model[S], state: S, graph: _Graph[S], number: int) -> None:
    problem = model.problem(state)
    if problem is not None:
        raise ViolationError(problem, graph.way(number))
