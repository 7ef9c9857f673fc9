"""The parent by hand: dealing, cuts, numbers, and what a loss leaves."""

from __future__ import annotations

import pytest

from penstock.errors import LostError
from penstock.host.device.fields import MalformedError
from penstock.host.workers.protocol.commit import CheckpointCommit
from penstock.host.workers.protocol.messages import Mark, OutputRows, PartWritten, Promise
from penstock.host.workers.protocol.parent import NumberedRows, Parent
from penstock.plan.window import FOREVER


def sent(parent: Parent, rank: int) -> list[str]:
    """What lies ready for a worker, in short; it is taken."""
    queue = parent.outgoing[rank]
    said = [f"{message.kind} {_what(message)}" for message in queue]
    queue.clear()
    return said


def _what(message: object) -> object:
    return message.time if isinstance(message, Promise) else getattr(message, "number", "")


def write_parts(parent: Parent, number: int, *, rows: bytes = b"") -> None:
    for rank in range(parent.size):
        name = f"{number}.{rank}".encode()
        parent.arrived(rank, PartWritten(parent.incarnation, number, name, rows))


def commit(parent: Parent, number: int, *, rows: bytes = b"") -> CheckpointCommit:
    """Cut, and commit the record."""
    assert parent.cut(f"at {number}") == number
    write_parts(parent, number, rows=rows)
    record = parent.ready
    assert record is not None
    parent.commit(record)
    return record


def test_batches_go_to_one_worker_and_promises_to_all():
    parent = Parent(2, saves=True)
    assert [parent.push(0, 0, "a", 10), parent.push(0, 5, "b", 10)] == [1, 2]
    parent.promise(0, 7)
    assert sent(parent, 0) == sent(parent, 1) == []
    assert parent.deal(1)
    assert parent.deal(0)
    assert not parent.deal(0)
    assert sent(parent, 0) == ["ROWS 2", "CONTROL 7"]
    assert sent(parent, 1) == ["ROWS 1", "CONTROL 7"]


def test_a_promise_that_says_nothing_new_is_not_sent():
    parent = Parent(1, saves=False)
    for time in (5, 5, 3, 6):
        parent.promise(0, time)
    assert sent(parent, 0) == ["CONTROL 5", "CONTROL 6"]
    parent.withdraw(0)
    parent.withdraw(0)
    assert sent(parent, 0) == ["CONTROL "]


def test_a_cut_is_behind_what_was_pushed():
    parent = Parent(2, saves=True)
    parent.push(0, 0, "a", 10)
    parent.cut("here")
    assert not parent.may_cut
    assert sent(parent, 1) == []
    parent.deal(0)
    assert sent(parent, 0) == ["ROWS 1", "MARK 1"]
    assert sent(parent, 1) == ["MARK 1"]


def test_a_record_needs_all_parts():
    parent = Parent(2, saves=True)
    parent.promise(3, 20)
    parent.cut("here")
    parent.promise(3, 30)
    parent.arrived(1, PartWritten(1, 1, b"s1", b"r1"))
    assert parent.ready is None
    parent.arrived(0, PartWritten(1, 1, b"s0", b""))
    assert parent.ready == CheckpointCommit(
        1, 2, 1, {3: 20}, "here", 0, (b"s0", b"s1"), {1: (b"r1",)}
    )


def test_a_commit_frees_what_it_covers():
    parent = Parent(1, saves=True)
    parent.push(0, 0, "a", 10)
    parent.deal(0)
    parent.push(0, 0, "b", 5)
    assert parent.held_bytes == 15
    parent.deal(0)
    commit(parent, 1)
    assert parent.held_bytes == 0
    assert parent.may_cut


def test_without_checkpoints_nothing_is_kept_and_a_cut_is_a_barrier():
    parent = Parent(2, saves=False)
    parent.push(0, 0, "a", 10)
    parent.deal(0)
    assert parent.held_bytes == 0
    parent.arrived(0, OutputRows(1, 1, "rows"))
    assert parent.poll() == (1, ["rows"])
    parent.cut()
    write_parts(parent, 1)
    assert parent.committed == 1
    assert parent.ready is None
    with pytest.raises(LostError, match="worker 1 of 2 has ended, and with it"):
        parent.recover(1)


def test_rows_leave_under_the_number_of_their_record():
    parent = Parent(1, saves=True)
    parent.arrived(0, OutputRows(1, 1, "one"))
    assert parent.poll() is None
    parent.cut()
    # The worker goes on while its part is being written.
    parent.arrived(0, OutputRows(1, 2, "two"))
    write_parts(parent, 1, rows=b"r")
    assert parent.poll() is None
    record = parent.ready
    assert record is not None
    parent.commit(record)
    assert parent.poll() == (1, ["one"])
    assert parent.acknowledged == 0
    assert parent.poll() is None
    assert parent.acknowledged == 1
    commit(parent, 2)
    assert parent.poll() == (2, ["two"])


def test_rows_that_were_not_acknowledged_stay_in_records():
    parent = Parent(1, saves=True)
    for number, name in ((1, b"r1"), (2, b"r2")):
        parent.arrived(0, OutputRows(1, number, name))
        record = commit(parent, number, rows=name)
    assert record.rows == {1: (b"r1",), 2: (b"r2",)}
    assert parent.poll() == (1, [b"r1"])
    assert commit(parent, 3).rows == {1: (b"r1",), 2: (b"r2",)}
    assert parent.poll() == (2, [b"r2"])
    assert commit(parent, 4).rows == {2: (b"r2",)}


def test_a_restart_gives_rows_again_under_their_numbers():
    record = CheckpointCommit(7, 2, 3, {0: 10}, "here", 5, (b"a", b"b"), {6: (b"r6",), 7: (b"r7",)})
    parent = Parent(3, saves=True, last=record, rows={7: ["seven"], 6: ["six"]})
    assert parent.incarnation == 4
    assert parent.committed == 7
    assert [parent.poll(), parent.poll()] == [(6, ["six"]), (7, ["seven"])]
    assert parent.acknowledged == 6
    assert parent.cut() == 8


def test_a_restart_tells_all_workers_what_was_promised():
    record = CheckpointCommit(1, 1, 1, {0: 10, 1: FOREVER}, "here", 1, (b"a",), {})
    parent = Parent(2, saves=True, last=record)
    assert sent(parent, 0) == sent(parent, 1) == ["CONTROL 10", f"CONTROL {FOREVER}"]
    assert parent.unnamed == {0}
    parent.promise(0, 10)
    assert not parent.unnamed


def test_a_loss_deals_again_what_no_record_covers():
    parent = Parent(2, saves=True)
    parent.promise(0, 1)
    parent.push(0, 0, "a", 1)
    parent.deal(0)
    first = commit(parent, 1)
    for body in "bc":
        parent.push(0, 0, body, 1)
    parent.promise(0, 5)
    parent.deal(1)
    parent.cut("later")
    parent.deal(1)
    parent.arrived(0, OutputRows(1, 2, "of the old"))
    parent.push(0, 0, "d", 1)
    assert parent.recover(0) == first
    assert parent.incarnation == 2
    assert not parent.arrived(1, OutputRows(1, 2, "of the old"))
    assert not parent.arrived(1, PartWritten(1, 2, b"old", b""))
    assert parent.refused == 2
    assert sent(parent, 0) == ["CONTROL 1"]
    while parent.deal(0):
        pass
    assert sent(parent, 0) == ["ROWS 2", "ROWS 3", "CONTROL 5", "MARK 2", "ROWS 4"]
    assert sent(parent, 1) == ["CONTROL 1", "CONTROL 5", "MARK 2"]
    assert parent.poll() is None


@pytest.mark.parametrize(
    "message",
    [OutputRows(1, 2, "rows"), PartWritten(1, 1, b"", b""), Mark(1, 1)],
)
def test_what_comes_out_of_turn(message: OutputRows | PartWritten | Mark):
    with pytest.raises(MalformedError, match=r"worker 1 sent .* after record 0, out of turn"):
        Parent(2, saves=True).arrived(1, message)


def test_a_part_that_comes_twice():
    parent = Parent(2, saves=True)
    parent.cut()
    parent.arrived(0, PartWritten(1, 1, b"", b""))
    with pytest.raises(MalformedError, match="out of turn"):
        parent.arrived(0, PartWritten(1, 1, b"", b""))


def test_rows_at_once_come_in_pieces():
    numbers = NumberedRows(now=True)
    numbers.add(1, "a")
    assert numbers.poll() == (1, ["a"])
    numbers.add(1, "b")
    numbers.add(2, "c")
    numbers.commit(1)
    assert numbers.poll() == (1, ["b"])
    assert numbers.acknowledged == 0
    assert numbers.poll() == (2, ["c"])
    assert numbers.acknowledged == 1
    assert numbers.poll() is None
    assert numbers.acknowledged == 1


def test_numbers_without_rows_need_no_poll_of_their_own():
    numbers = NumberedRows(now=False)
    numbers.commit(1)
    numbers.commit(2)
    assert numbers.poll() is None
    assert numbers.acknowledged == 2
