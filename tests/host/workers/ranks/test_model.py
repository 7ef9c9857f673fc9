"""Every interleaving of ranks, their chair, notes and disk, with new starts; mistakes are found."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from penstock.host.workers.ranks.chair import Begin, Chair, Over
from penstock.host.workers.ranks.cuts import Cuts
from penstock.host.workers.ranks.recorder import Recorder
from tests.host.workers.ranks.model import Setting, System
from tests.host.workers.ranks.rank import Rank
from tests.kit.explorer import Explored, ViolationError, explore

#: Two keys, led by different ranks, in two windows; the other feed holds the first window back.
TWO_FEEDS = ((((0, 1), (1, 11)), 10),), ((((1, 5),), 10),)
#: The same, the first feed in two batches.
THREE_BATCHES = ((((0, 1),), 2), (((1, 11),), 10)), ((((1, 5),), 10),)
#: A feed for each of three ranks, and one group.
ONE_KEY = tuple(((((0, time),), 10),) for time in (1, 2, 3))

SHORT = {
    "2 ranks, a cut, an early epoch": Setting(sizes=(2,), feeds=TWO_FEEDS, cuts=1, epochs=1),
    "2 ranks, a cut, then 1": Setting(sizes=(2, 1), feeds=THREE_BATCHES, cuts=1),
    "1 rank, a cut, then 2": Setting(sizes=(1, 2), feeds=TWO_FEEDS, cuts=1),
}
FULL = {
    "2 ranks, 2 cuts": Setting(sizes=(2,), feeds=TWO_FEEDS, cuts=2),
    "2 ranks, a cut, an early epoch, then 2": Setting(
        sizes=(2, 2), feeds=TWO_FEEDS, cuts=1, epochs=1
    ),
    "2 ranks, then 1, then 2": Setting(sizes=(2, 1, 2), feeds=TWO_FEEDS, cuts=1),
    "3 ranks, 1 key, then 2": Setting(sizes=(3, 2), keys=1, feeds=ONE_KEY),
}


class _HastyChair(Chair):
    def turn(self) -> Begin | Over | None:
        if self._begun is None or not self._parts:
            return super().turn()
        over = Over(self._number, tuple(self._parts.values()), self._begun.is_last)
        self._parts, self._begun, self._is_over = {}, None, over.is_last
        return over

    def part(self, rank: int, number: int, part: Mapping[str, Any]) -> None:
        if self._begun is not None:
            super().part(rank, number, part)


class _Hasty(Cuts):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        if self._chair is not None:
            self._chair = _HastyChair(self.size, self.parent.committed)


class HastyRank(Rank):
    """Takes a cut for over with the first part of it."""

    cuts_type = _Hasty


class _Early(Cuts):
    def give_part(self, acknowledged: int, counts: Mapping[str, int]) -> bool:
        commit = self.parent.ready
        if commit is None:
            return False
        super().give_part(acknowledged, counts)
        self.parent.commit(commit)
        return True


class EarlyRank(Rank):
    """Lets rows go once its own part is written."""

    cuts_type = _Early


class TellingRank(Rank):
    """Tells of a record before it is written."""

    def turn(self) -> None:
        super().turn()
        if self.over is not None:
            self.tell()


class _Forgetful(Recorder):
    def whole(self, over: Over) -> Any:
        most = max(part["acknowledged"] for part in over.parts)
        parts = tuple({**part, "acknowledged": most} for part in over.parts)
        return super().whole(replace(over, parts=parts))


class ForgetfulRank(Rank):
    """Drops rows that one rank's caller has not taken, once another one's has."""

    recorder_type = _Forgetful


RESTART = SHORT["2 ranks, a cut, then 1"]
#: What each does wrong is in its docstring; how the finding begins.
MUTANTS = {HastyRank: "P2: the record", EarlyRank: "P2", TellingRank: "P2", ForgetfulRank: "P2"}

#: Those that take longest, which the short run leaves out.
LARGE = {"2 ranks, a cut, an early epoch", "2 ranks, a cut, then 1", ForgetfulRank}


def without_large(cases: Iterable[Any]) -> list[Any]:
    return [pytest.param(one, marks=pytest.mark.slow if one in LARGE else ()) for one in cases]


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    """Millions of values without circles: looking for some would take most of the time."""
    gc.disable()
    yield
    gc.enable()


def check(name: str, setting: Setting, show: Callable[[str, Explored], None]) -> None:
    system = System(setting)
    explored = explore(system, system.first())
    assert explored.ends > 0
    show(f"ranks: {name}", explored)


@pytest.mark.parametrize("name", without_large(SHORT))
def test_every_interleaving(name: str, show_states: Callable[[str, Explored], None]) -> None:
    check(name, SHORT[name], show_states)


@pytest.mark.slow
@pytest.mark.parametrize("name", FULL)
def test_every_interleaving_of_more(
    name: str, show_states: Callable[[str, Explored], None]
) -> None:
    check(name, FULL[name], show_states)


@pytest.mark.parametrize("rank", without_large(MUTANTS))
def test_a_mistake_is_found(rank: type[Rank]) -> None:
    system = System(RESTART, rank)
    with pytest.raises(ViolationError) as found:
        explore(system, system.first())
    problem = found.value.problem.removeprefix("AssertionError: ")
    assert problem.startswith(MUTANTS[rank]), found.value
