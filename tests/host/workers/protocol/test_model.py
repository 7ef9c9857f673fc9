"""Every interleaving of the real machines, with deaths and restarts; mistakes are found."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from tests.host.workers.protocol import mutants
from tests.host.workers.protocol.model import System
from tests.host.workers.protocol.tally import SharedTally
from tests.host.workers.protocol.world import Item, Setting
from tests.kit.explorer import Explored, ViolationError, explore


def rows(*given: tuple[int, int], feed: int = 0) -> Item:
    """A batch of rows of key and time."""
    return feed, given


#: Two keys, led by different workers, in two windows; the last row is out of order.
TWO_WINDOWS = (rows((0, 1), (1, 11)), rows((1, 5)), (0, 10))
#: Two feeds: the second promises less, and holds back what the first has closed.
TWO_FEEDS = (
    (0, 3),
    (1, 0),
    rows((0, 4), (1, 11)),
    rows((1, 5), feed=1),
    (0, 10),
    (1, 10),
)
#: Only of three workers one may have all marks while another has that one's and waits for more.
MARKS = Setting(
    size=3,
    keys=1,
    items=((0, 0), rows((0, 1))),
    cuts=1,
    epochs=1,
    is_prompt=True,
    begins=("promise", "cut", "0 takes MARK", "1 takes MARK", "2 takes MARK"),
)
#: One key for three workers.
ONE_KEY = (rows((0, 1)), rows((0, 2)))

SHORT = {
    "2 workers, a cut": Setting(items=TWO_WINDOWS, cuts=1, epochs=2),
    "2 workers, a cut, one dies": Setting(items=TWO_WINDOWS, cuts=1, epochs=1, deaths=1),
    "2 workers, a cut, 1 after a restart": Setting(
        items=TWO_WINDOWS, cuts=1, epochs=1, restarts=(1,)
    ),
    "2 workers, rows at once": Setting(items=TWO_WINDOWS, cuts=1, epochs=1, now=True),
    "2 workers, no checkpoints": Setting(items=TWO_WINDOWS, cuts=1, epochs=2, saves=False),
    "2 workers, each message by itself": Setting(items=TWO_WINDOWS, epochs=1, is_lazy=True),
    "3 workers, 1 key, behind a mark": MARKS,
    "3 workers, 1 key": Setting(size=3, keys=1, items=ONE_KEY, epochs=0, is_prompt=True),
    "3 workers, 1 key, one dies": Setting(
        size=3, keys=1, items=ONE_KEY[:1], epochs=0, deaths=1, is_prompt=True
    ),
}
FULL = {
    "2 workers, a cut, one dies, more epochs": Setting(
        items=TWO_WINDOWS, cuts=1, epochs=3, deaths=1
    ),
    "2 workers, a cut, one dies, then all": Setting(
        items=TWO_WINDOWS, cuts=1, epochs=0, deaths=1, restarts=(2,)
    ),
    "2 workers, 2 feeds, 1 after a restart": Setting(
        items=TWO_FEEDS, cuts=1, epochs=2, restarts=(1,)
    ),
    "1 worker, a cut, 2 after a restart": Setting(
        size=1, items=TWO_WINDOWS, cuts=1, epochs=2, restarts=(2,)
    ),
    "2 workers, each message by itself, one dies": Setting(
        items=TWO_WINDOWS[:1], epochs=0, is_lazy=True, deaths=1
    ),
    "2 workers, rows at once, one dies": Setting(
        items=TWO_WINDOWS, cuts=1, epochs=1, deaths=1, now=True
    ),
    "3 workers, 1 key, early epochs": Setting(
        size=3, keys=1, items=ONE_KEY, epochs=2, saves=False, is_prompt=True
    ),
}

#: Of two steps the first has one row, so that who takes both at once has other shares.
STEPS = (rows((0, 1)), (0, 10), rows((0, 11)), rows((1, 12)), (0, 20))
SHARED = {
    "2 workers, shares of steps": Setting(items=STEPS, epochs=3, saves=False, shares_steps=True),
    "2 workers, shares of steps, a cut": Setting(
        items=STEPS, epochs=2, cuts=1, shares_steps=True, is_prompt=True
    ),
    "2 workers, shares of steps, 1 after a restart": Setting(
        items=STEPS[:3], epochs=1, cuts=1, restarts=(1,), shares_steps=True, is_prompt=True
    ),
    # Only a third worker's rows may come after the announcement.
    "3 workers, shares of a step": Setting(
        size=3,
        items=(rows((0, 1)), (0, 10), rows((0, 11), (1, 12))),
        epochs=3,
        saves=False,
        shares_steps=True,
        is_prompt=True,
        begins=(
            *("deal to 2", "promise"),
            *("0 ends its epoch", "1 ends its epoch", "2 ends its epoch"),
        ),
    ),
}

#: Rows of one group on both workers.
ONE_GROUP = Setting(items=(rows((1, 1)), rows((1, 2)), (0, 10)))
EPOCHS = Setting(items=(rows((0, 1)), rows((0, 2)), rows((0, 3))), epochs=4)
DEATH = Setting(items=(rows((0, 1), (1, 1)), (0, 10)), cuts=1, deaths=1, is_prompt=True)
RESTART = Setting(size=1, items=(rows((0, 1)), (0, 10), rows((0, 12))), cuts=1, restarts=(1,))
#: Name of a mistake: what makes the system, in which setting, and how the finding begins.
MUTANTS: dict[str, tuple[Callable[[Setting], System], Setting, str]] = {
    "trigger on own clock": (lambda s: System(s, worker=mutants.OwnClock), ONE_GROUP, "P1"),
    "trigger before merge": (lambda s: System(s, worker=mutants.TriggerFirst), ONE_GROUP, "P1"),
    "a part before complete groups leave": (
        lambda s: System(s, worker=mutants.Stranding),
        ONE_GROUP,
        "P2",
    ),
    "clear not from zero": (lambda s: System(s, state=mutants.NotFromZero), EPOCHS, "P2"),
    "index not redirected at seal": (
        lambda s: System(s, state=mutants.StaleIndex),
        EPOCHS,
        "P1",
    ),
    "delta merged twice": (lambda s: System(s, worker=mutants.Repeating), ONE_GROUP, "P2"),
    "merge past a mark": (lambda s: System(s, worker=mutants.PastTheMark), MARKS, "P2"),
    "release before commit": (lambda s: System(s, parent=mutants.EarlyRelease), RESTART, "P2"),
    "promise sent before its delta": (
        lambda s: System(s, worker=mutants.PromiseFirst),
        ONE_GROUP,
        "P1",
    ),
    "only the dead worker restored": (
        lambda s: mutants.DeadOnlySystem(s, worker=mutants.Unnumbered, parent=mutants.DeadOnly),
        DEATH,
        "P2",
    ),
    "a message of an older incarnation merged": (
        lambda s: mutants.ReliableSystem(s, worker=mutants.AnyIncarnation),
        DEATH,
        "P2",
    ),
    "a part of an older incarnation committed": (
        lambda s: System(s, parent=mutants.AnyPart),
        DEATH,
        "P2",
    ),
    "a record with a part missing": (
        lambda s: System(s, parent=mutants.FirstPart),
        ONE_GROUP,
        "P2",
    ),
    "a part kept over a loss": (
        lambda s: mutants.ReliableSystem(s, parent=mutants.KeepingParts),
        DEATH,
        "P2",
    ),
    "a step that is not announced": (
        lambda s: System(s, worker=mutants.Untold, state=SharedTally),
        SHARED["2 workers, shares of steps"],
        "P2",
    ),
    "a step announced behind the mark": (
        lambda s: System(s, worker=mutants.TellingPastTheMark, state=SharedTally),
        SHARED["2 workers, shares of steps, a cut"],
        "P2",
    ),
    "a step before the own clock": (
        lambda s: System(s, worker=mutants.Hasty, state=SharedTally),
        SHARED["3 workers, shares of a step"],
        "P2",
    ),
    "shares by arrival": (
        lambda s: System(s, state=mutants.ByArrival),
        SHARED["2 workers, shares of steps"],
        "P2",
    ),
    "a log saved by all": (
        lambda s: System(s, state=mutants.AllSaving),
        SHARED["2 workers, shares of steps, 1 after a restart"],
        "",
    ),
    "parts dropped before rows are acknowledged": (
        lambda s: System(s, parent=mutants.Forgetful),
        RESTART,
        "P2",
    ),
}

#: The largest ones, of which the full run explores all: the short run's are the others.
LARGE = {
    "2 workers, a cut",
    "2 workers, a cut, one dies",
    "2 workers, no checkpoints",
    "3 workers, 1 key, behind a mark",
    "2 workers, shares of steps",
    "2 workers, shares of steps, a cut",
    "a step that is not announced",
    "a step announced behind the mark",
    "a step before the own clock",
    "shares by arrival",
}


def without_large(names: Iterable[str]) -> list[Any]:
    return [pytest.param(n, marks=pytest.mark.slow if n in LARGE else ()) for n in names]


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
    show(f"workers and parent: {name}", explored)


@pytest.mark.parametrize("name", without_large(SHORT))
def test_every_interleaving(name: str, show_states: Callable[[str, Explored], None]):
    check(name, SHORT[name], show_states)


@pytest.mark.parametrize("name", without_large(SHARED))
def test_every_interleaving_of_shares(name: str, show_states: Callable[[str, Explored], None]):
    system = System(SHARED[name], state=SharedTally)
    explored = explore(system, system.first())
    assert explored.ends > 0
    show_states(f"workers and parent: {name}", explored)


@pytest.mark.slow
@pytest.mark.parametrize("name", FULL)
def test_every_interleaving_of_more(name: str, show_states: Callable[[str, Explored], None]):
    check(name, FULL[name], show_states)


@pytest.mark.parametrize("name", without_large(MUTANTS))
def test_a_mistake_is_found(name: str):
    make, setting, problem = MUTANTS[name]
    system = make(setting)
    with pytest.raises(ViolationError) as found:
        explore(system, system.first())
    assert found.value.problem.removeprefix("AssertionError: ").startswith(problem), found.value
