"""The model checker of the tests, on systems whose states can be counted by hand."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

import pytest

from tests.kit.explorer import Explored, Step, TooManyStatesError, ViolationError, explore

State = tuple[int, ...]


class Counters:
    """Counters that each go up to a limit; a rule and an end for each test to set."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.forbidden: State | None = None
        self.stuck: State | None = None
        self.ends: State | None = None

    def steps(self, state: State) -> Iterable[Step[State]]:
        if state == self.stuck:
            return
        for place, value in enumerate(state):
            if value < self.limit:
                yield f"raise {place}", lambda p=place: self._raised(state, p)

    def _raised(self, state: State, place: int) -> State:
        if state[place] < 0:
            raise ValueError("a counter below zero")
        return (*state[:place], state[place] + 1, *state[place + 1 :])

    def problem(self, state: State) -> str | None:
        return "forbidden" if state == self.forbidden else None

    def is_end(self, state: State) -> bool:
        return state == (self.ends or (self.limit,) * len(state))

    def key(self, state: State) -> Hashable:
        return state


class Circle(Counters):
    """Counters that begin again from zero: steps without end."""

    def _raised(self, state: State, place: int) -> State:
        return tuple(value % self.limit for value in super()._raised(state, place))


def test_every_interleaving_is_seen_once(show_states: Callable[[str, Explored], None]):
    seen = explore(Counters(3), (0, 0))
    show_states("two counters", seen)
    assert (seen.states, seen.steps, seen.ends, seen.depth) == (16, 24, 1, 6)
    assert "16 states, 24 steps, 1 ends, depth 6" in str(seen)


def test_a_broken_invariant_is_shown_with_a_shortest_way():
    model = Counters(3)
    model.forbidden = (1, 2)
    with pytest.raises(ViolationError, match="forbidden, after 3 steps") as caught:
        explore(model, (0, 0))
    assert sorted(caught.value.way) == ["raise 0", "raise 1", "raise 1"]


def test_the_first_state_is_checked_too():
    model = Counters(3)
    model.forbidden = (0, 0)
    with pytest.raises(ViolationError, match="forbidden, after 0 steps"):
        explore(model, (0, 0))


def test_a_deadlock_is_found():
    model = Counters(2)
    model.stuck = (2, 1)
    with pytest.raises(ViolationError, match="deadlock") as caught:
        explore(model, (0, 0))
    assert sorted(caught.value.way) == ["raise 0", "raise 0", "raise 1"]


def test_a_step_that_changes_nothing_is_no_way_on():
    model = Circle(1)
    model.ends = (5,)
    with pytest.raises(ViolationError, match="deadlock"):
        explore(model, (0,))


def test_a_circle_without_an_end_is_found():
    model = Circle(3)
    model.ends = (5,)
    with pytest.raises(ViolationError, match="no way leads to an end"):
        explore(model, (0,))
    assert explore(model, (0,), ends_reached=False).ends == 0


def test_a_step_that_raises_is_shown():
    with pytest.raises(ViolationError, match="ValueError: a counter below zero") as caught:
        explore(Counters(2), (0, -1))
    assert caught.value.way == ["raise 1"]


def test_too_many_states_prove_nothing():
    with pytest.raises(TooManyStatesError, match="more than 10 states"):
        explore(Counters(3), (0, 0), most_states=10)
