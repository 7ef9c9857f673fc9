"""One worker, or two, by hand: when what may happen, and what is refused."""

from __future__ import annotations

import pytest

from penstock.host.device.fields import MalformedError
from penstock.host.workers.protocol.epochs import EpochOrder
from penstock.host.workers.protocol.marks import Marks
from penstock.host.workers.protocol.messages import (
    DealtRows,
    DeltaBlock,
    EpochEnd,
    Mark,
    Message,
    OutputRows,
    PartWritten,
    Promise,
    StepNotice,
    Withdrawal,
)
from penstock.host.workers.protocol.worker import Worker
from penstock.plan.window import FOREVER
from tests.host.workers.protocol.tally import Rows, SharedTally, Tally, limit_of


def worker(rank: int = 0, size: int = 2, **others: object) -> Worker:
    return Worker(rank, size, Tally(rank, size, keys=2), limit_of, **others)  # type: ignore[arg-type]


def deal(to: Worker, *rows: tuple[int, int], incarnation: int = 1) -> None:
    to.take_dealt(DealtRows(incarnation, 1, 0, 0, Rows(rows)))


def kinds(messages: object) -> list[str]:
    return [message.kind for message in messages]  # type: ignore[attr-defined]


def test_an_epoch_is_its_blocks_and_its_end():
    helper = worker()
    deal(helper, (0, 1), (1, 2), (1, 12))
    helper.take_dealt(Promise(1, 0, 5))
    helper.end_epoch()
    assert list(helper.outgoing[1]) == [
        DeltaBlock(1, 1, 0, (((0, 1), 1),)),
        DeltaBlock(1, 1, 1, (((10, 1), 1),)),
        EpochEnd(1, 1, 2, 3, 0, ((0, 5),)),
    ]
    assert not helper.outgoing[0]


def test_a_promise_travels_behind_its_rows():
    helper, leader = worker(0), worker(1)
    deal(helper, (1, 2))
    helper.take_dealt(Promise(1, 0, 10))
    leader.take_dealt(Promise(1, 0, 10))
    leader.end_epoch()
    helper.end_epoch()
    block, end = helper.outgoing[1]
    leader.arrived(0, block)
    assert not leader.results
    leader.arrived(0, end)
    assert not leader.can_release  # the helper may need what the leader has for it
    leader.outgoing[0].clear()
    assert leader.can_release
    assert not leader.results
    leader.release()
    assert not leader.can_release
    assert [output.body.groups for output in leader.results] == [(((0, 1), 1),)]
    assert leader.counts[0] == (1, 0)
    assert leader.merged == 1


def test_a_window_can_close_once_the_promise_passes_its_end():
    one = worker(size=1)
    assert not one.can_close
    one.take_dealt(Promise(1, 0, 9))
    one.end_epoch()
    assert not one.can_close
    one.take_dealt(Promise(1, 0, 10))
    assert one.can_close
    one.end_epoch()
    assert not one.can_close
    one.take_dealt(Withdrawal(1, 0))
    assert not one.can_close


def test_no_epoch_ends_while_the_last_one_is_on_its_way():
    helper = worker()
    helper.end_epoch()
    assert not helper.may_end
    assert not helper.may_take(Mark(1, 1))
    assert helper.may_take(Promise(1, 0, 1))
    helper.outgoing[1].clear()
    assert helper.may_end
    assert helper.may_take(Mark(1, 1))


def test_a_mark_is_behind_the_end_and_holds_until_all_are_there():
    first, second = worker(0, saves=True), worker(1, saves=True)
    deal(first, (0, 1))
    first.take_dealt(Mark(1, 1))
    assert kinds(first.outgoing[1]) == ["END", "MARK"]
    first.outgoing[1].clear()
    assert not first.may_end
    assert first.may_read(1)
    second.arrived(0, EpochEnd(1, 1, 0, 1, 0, ()))
    second.arrived(0, Mark(1, 1))
    assert not second.may_read(0)
    second.take_dealt(Mark(1, 1))
    assert not second.can_release
    assert not second.may_end
    second.outgoing[0].clear()
    second.release()
    assert second.may_read(0)
    assert second.may_end
    assert [part.number for part in second.parts] == [1]


def sharing(rank: int) -> Worker:
    return Worker(rank, 2, SharedTally(rank, 2, keys=2), limit_of, shares_steps=True)


def test_a_step_is_announced_and_the_announcement_sent_before_it_is_taken():
    first = sharing(0)
    deal(first, (0, 1))
    first.take_dealt(Promise(1, 0, 10))
    first.end_epoch()
    first.outgoing[1].clear()
    first.arrived(1, EpochEnd(1, 1, 0, 0, 0, ((0, 10),)))
    assert first.should_release(is_idle=False)
    first.release()
    assert list(first.outgoing[1]) == [StepNotice(1, 10)]
    assert not first.results
    assert not first.can_release
    first.outgoing[1].clear()
    assert first.should_release(is_idle=False)
    assert not first.may_end
    first.release()
    assert [output.body.groups for output in first.results] == [(((0, 0), 1),)]
    assert first.may_end


@pytest.mark.parametrize("is_later", [False, True])
def test_a_step_waits_until_others_have_the_blocks_that_they_need_for_it(is_later):
    """Both take the step; while one does, the other cannot hand over what is left of an epoch."""
    second = sharing(1)
    second.take_dealt(Promise(1, 0, 10))
    second.end_epoch()
    if is_later:
        second.outgoing[0].clear()
        second.end_epoch()
    second.arrived(0, EpochEnd(1, 1, 0, 0, 0, ((0, 10),)))
    second.arrived(0, StepNotice(1, 10))
    assert second.can_release == is_later
    second.outgoing[0].clear()
    assert second.can_release


def test_a_part_holds_the_state_and_the_rows_since_the_part_before():
    one = worker(size=1, saves=True)
    deal(one, (0, 1), (1, 11))
    one.take_dealt(Promise(1, 0, 10))
    one.take_dealt(Mark(1, 1))
    part = one.parts.popleft()
    assert part.state == ((((10, 1), 1),),)
    assert [rows.groups for rows in part.rows] == [(((0, 0), 1),)]
    assert part.promises == {0: 10}
    assert [output.number for output in one.results] == [1]
    one.take_dealt(Promise(1, 0, FOREVER))
    one.take_dealt(Mark(1, 2))
    part = one.parts.popleft()
    assert part.state == ((),)
    assert [rows.groups for rows in part.rows] == [(((10, 1), 1),)]
    assert [output.number for output in one.results] == [1, 2]


def test_without_checkpoints_parts_are_empty():
    one = worker(size=1)
    deal(one, (0, 1))
    one.take_dealt(Promise(1, 0, FOREVER))
    one.take_dealt(Mark(1, 1))
    part = one.parts.popleft()
    assert (part.state, part.rows) == ((), ())


def test_any_number_of_workers_goes_on():
    before = worker(size=1, saves=True)
    deal(before, (0, 1), (1, 2))
    before.take_dealt(Mark(1, 1))
    blocks = before.parts.popleft().state
    after = [worker(rank, incarnation=2, number=1, recorded={0: 0}) for rank in (0, 1)]
    for one in after:
        one.load(blocks, 1)
    assert [one.state.led for one in after] == [{(0, 0): 1}, {(0, 1): 1}]  # type: ignore[attr-defined]


def test_an_older_incarnation_is_refused():
    leader = worker(incarnation=2)
    assert not leader.arrived(1, DeltaBlock(1, 1, 0, (((0, 0), 1),)))
    deal(leader, (0, 1), incarnation=1)
    assert leader.refused == 2
    assert leader.merged == leader.rows == 0


def test_a_newer_incarnation_ends_the_worker():
    with pytest.raises(MalformedError, match="worker 1 is in incarnation 2 and worker 0 in 1; end"):
        worker().arrived(1, Mark(2, 1))


def test_a_repeated_delta_is_refused():
    leader = worker()
    block = DeltaBlock(1, 1, 0, (((0, 0), 1),))
    assert leader.arrived(1, block)
    with pytest.raises(MalformedError, match="block 0 of epoch 1, but block 1 of epoch 1 or its"):
        leader.arrived(1, block)
    assert leader.merged == 1
    end = EpochEnd(1, 1, 1, 1, 0, ())
    assert leader.arrived(1, end)
    for repeated in (block, end):
        with pytest.raises(MalformedError, match="but block 0 of epoch 2 or its end is next"):
            leader.arrived(1, repeated)
    assert leader.merged == 1


def test_a_missing_block_is_noticed():
    leader = worker()
    with pytest.raises(MalformedError, match="the end of epoch 1 after 1 blocks, but block 0"):
        leader.arrived(1, EpochEnd(1, 1, 1, 1, 0, ()))


def test_a_mark_within_an_epoch():
    leader = worker()
    leader.arrived(1, DeltaBlock(1, 1, 0, ()))
    with pytest.raises(MalformedError, match="worker 1 sent mark 1 within an epoch"):
        leader.arrived(1, Mark(1, 1))


@pytest.mark.parametrize("message", [OutputRows(1, 1, Rows(())), PartWritten(1, 1, b"", b"")])
def test_what_only_a_parent_takes(message: Message):
    with pytest.raises(MalformedError, match="which goes only between a worker and the parent"):
        worker().arrived(1, message)
    with pytest.raises(MalformedError, match="the parent sent a worker"):
        worker().take_dealt(message)


def test_marks_out_of_turn():
    marks = Marks(2, 1)
    marks.add(0, 1)
    assert not marks.are_complete
    for rank, number in ((0, 1), (1, 2)):
        with pytest.raises(MalformedError, match=f"worker {rank} sent mark {number} out of turn"):
            marks.add(rank, number)
    marks.add(1, 1)
    assert marks.are_complete
    assert 0 in marks
    marks.next()
    assert marks.number == 2
    assert 0 not in marks


def test_epochs_of_workers_are_apart():
    order = EpochOrder(2)
    order.block(0, 1, 0)
    order.end(1, 1, 0)
    assert not order.is_between(0)
    assert (order.ended(0), order.ended(1)) == (0, 1)
    order.end(0, 1, 1)
    assert order.ended(0) == 1
