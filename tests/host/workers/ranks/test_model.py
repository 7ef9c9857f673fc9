"""Every interleaving of ranks, notes and disk, with new starts; mistakes are found."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from penstock.host.workers.protocol.commit import CheckpointCommit
from penstock.host.workers.protocol.coordinator import Coordinator, MemberPart, Phase
from penstock.host.workers.ranks.admission import merged
from penstock.host.workers.ranks.rank_parent import RankParent
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


class _Coordinated(RankParent):
    """Has at rank 0 a coordinator with one thing changed."""

    coordinator_type: type[Coordinator]

    def __init__(self, rank: int, size: int, **others: Any) -> None:
        super().__init__(rank, size, **others)
        if rank == 0:
            self.coordinator = self.coordinator_type(size, others["last"])


class _FirstPart(Coordinator):
    def add(self, member: int, part: MemberPart) -> None:
        if self.phase is Phase.CUTTING:
            super().add(member, part)
            self.phase = Phase.SAVED

    @property
    def parts(self) -> list[MemberPart]:
        return list(self._parts.values())


class _Hasty(_Coordinated):
    coordinator_type = _FirstPart


class HastyRank(Rank):
    """Takes a cut for saved with the first part of it."""

    parent_type = _Hasty


class _Early(RankParent):
    def give_part(self, acknowledged: int, counts: Mapping[str, int]) -> bool:
        is_given = super().give_part(acknowledged, counts)
        if is_given:
            self._numbers.commit(self.committed + 1)
        return is_given

    def _seal(self, commit: CheckpointCommit | None) -> None:
        self._numbers.committed -= 1
        super()._seal(commit)


class EarlyRank(Rank):
    """Lets rows go once its own part is written."""

    parent_type = _Early


class TellingRank(Rank):
    """Tells of a record before it is written."""

    @property
    def has_word(self) -> bool:
        return self.record is None and self.parent.ready is not None

    def tell(self) -> None:
        record = self.record = self.parent.ready
        assert record is not None
        self.parent.commit(record)
        self.settle()

    @property
    def has_record(self) -> bool:
        return self.record is not None

    def take_record(self) -> CheckpointCommit | None:
        record, self.record = self.record, None
        return record


class _Forgetful(RankParent):
    @property
    def ready(self) -> CheckpointCommit | None:
        record = super().ready
        if record is None:
            return None
        most = max(part.acknowledged for part in self.coordinator.parts)
        rows = {number: names for number, names in record.rows.items() if number > most}
        return replace(record, acknowledged=most, rows=rows)


class ForgetfulRank(Rank):
    """Drops rows that one rank's caller has not taken, once another one's has."""

    parent_type = _Forgetful


class _Selfish(RankParent):
    @property
    def ready(self) -> CheckpointCommit | None:
        record = super().ready
        if record is None:
            return None
        return replace(record, admission=merged([self.coordinator.parts[0].admission]))


class SelfishRank(Rank):
    """Records its own intake as that of all."""

    parent_type = _Selfish


class _FirstEnd(Coordinator):
    def begin(self) -> int:
        number = super().begin()
        self.is_last = bool(self._ended)
        return number


class _Ending(_Coordinated):
    coordinator_type = _FirstEnd


class EndingRank(Rank):
    """Takes a cut for the last once one rank has ended."""

    parent_type = _Ending


RESTART = SHORT["2 ranks, a cut, then 1"]
#: What each does wrong is in its docstring; how the finding begins.
MUTANTS = {
    HastyRank: "P2: the record",
    EarlyRank: "P2",
    TellingRank: "P2",
    ForgetfulRank: "P2",
    SelfishRank: "P2: the record",
    EndingRank: "P2",
}

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
