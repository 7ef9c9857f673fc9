"""Results as messages: one that its task cannot have is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.host.device.base import Pause, Result, Task
from penstock.host.device.fields import MalformedError
from penstock.host.devices.remote.wire.tasks import result_from, result_message
from penstock.program import BandProgram

CAPACITY = 10
PROGRAM = BandProgram(tests=1, key_bits=16, table=0b10)
#: Three tuples with all of a window from position 2 on.
TASK = Task([], np.full(3, 2), np.full(3, CAPACITY), room=4)
PAIRS = Result(np.arange(2, dtype=np.uint32), np.full(2, 5, np.uint32), None, {"evaluations": 9})


def through_message(result: Result, task: Task = TASK) -> Result:
    return result_from(*result_message(result), task, CAPACITY, PROGRAM)


@pytest.mark.parametrize("pause", [None, (1, 1, 2), (0, 3, 3), (2, 3, 9), (3, 3, CAPACITY)])
def test_results_arrive_as_they_were(pause: tuple[int, int, int] | None) -> None:
    given = replace(PAIRS, pause=None if pause is None else Pause(*pause))
    found = through_message(given)
    assert found.pause == given.pause
    assert (found.i.tolist(), found.j.tolist()) == ([0, 1], [5, 5])
    assert found.counters == given.counters


@pytest.mark.parametrize("pause", [(0, 0, 2), (0, 0, 9), (0, 3, 2), (0, 3, 1)])
def test_a_pause_before_which_nothing_was_done_would_be_resumed_for_ever(
    pause: tuple[int, int, int],
) -> None:
    with pytest.raises(MalformedError, match=r"a task of 3 tuples paused at"):
        through_message(replace(PAIRS, pause=Pause(*pause)))


@pytest.mark.parametrize("pause", [(2, 1, 5), (0, 4, 5), (-1, 1, 5), (1, 2, CAPACITY + 1)])
def test_a_pause_outside_the_task(pause: tuple[int, int, int]) -> None:
    with pytest.raises(MalformedError, match=r"a task of 3 tuples paused at"):
        through_message(replace(PAIRS, pause=Pause(*pause)))


def test_more_pairs_than_the_task_has_room_for() -> None:
    assert len(through_message(PAIRS, replace(TASK, room=2)).i) == 2
    with pytest.raises(MalformedError, match="2 pairs came for a task with room for 1"):
        through_message(PAIRS, replace(TASK, room=1))


@pytest.mark.parametrize(("column", "bound"), [("i", 3), ("j", CAPACITY)])
def test_pairs_outside_the_task(column: str, bound: int) -> None:
    beyond = np.array([0, bound], np.uint32)
    with pytest.raises(MalformedError, match=f"a pair has {bound}, and there are {bound}"):
        through_message(replace(PAIRS, **{column: beyond}))
