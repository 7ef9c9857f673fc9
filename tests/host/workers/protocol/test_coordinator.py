"""The coordinator by hand: its phases, which cut is the last, and what a loss leaves."""

from __future__ import annotations

import pytest

from penstock.host.workers.protocol.commit import CheckpointCommit
from penstock.host.workers.protocol.coordinator import Coordinator, MemberPart, Phase


def commit(coordinator: Coordinator, *, acknowledged: int = 0) -> CheckpointCommit:
    """Give all parts of the cut that is under way, and seal its record."""
    number = coordinator.number + 1
    for member in range(coordinator.size):
        coordinator.add(member, MemberPart(b"s%d" % member, b"r%d.%d" % (number, member)))
    record = coordinator.record(1, {}, None, acknowledged)
    coordinator.seal(record)
    return record


def test_a_cut_goes_through_all_phases():
    coordinator = Coordinator(2, CheckpointCommit(4, 2, 1, {}, None, 4, (), {}))
    assert not coordinator.is_due
    coordinator.want()
    assert coordinator.is_due
    assert coordinator.phase is Phase.RUNNING
    assert coordinator.begin() == 5
    assert coordinator.phase is Phase.CUTTING
    coordinator.add(1, MemberPart(b"s1"))
    assert [coordinator.awaits(member, 5) for member in (0, 1)] == [True, False]
    assert not coordinator.awaits(0, 6)
    assert [coordinator.has_part(member) for member in (0, 1)] == [False, True]
    coordinator.add(0, MemberPart(b"s0"))
    assert coordinator.phase is Phase.SAVED
    assert coordinator.number == 4
    record = coordinator.record(2, {0: 7}, "here", 3)
    assert record == CheckpointCommit(5, 2, 2, {0: 7}, "here", 3, (b"s0", b"s1"), {})
    coordinator.seal(record)
    assert coordinator.phase is Phase.SEALED
    assert coordinator.number == 5
    coordinator.go_on()
    assert coordinator.phase is Phase.RUNNING


def test_a_cut_under_way_does_not_count_for_who_wants_one():
    coordinator = Coordinator(1)
    coordinator.want()
    coordinator.begin()
    coordinator.want()
    assert not coordinator.is_due
    commit(coordinator)
    assert not coordinator.is_due
    coordinator.go_on()
    assert coordinator.is_due


def test_the_last_cut_begins_when_all_have_ended():
    coordinator = Coordinator(2)
    coordinator.end(1)
    assert not coordinator.is_due
    coordinator.want()
    coordinator.begin()
    coordinator.end(0)
    assert not coordinator.is_last
    commit(coordinator)
    coordinator.go_on()
    assert coordinator.is_due
    coordinator.begin()
    assert coordinator.is_last
    commit(coordinator)
    coordinator.go_on()
    assert coordinator.phase is Phase.SEALED
    coordinator.want()
    assert not coordinator.is_due


def test_rows_stay_named_until_they_are_acknowledged():
    coordinator = Coordinator(1)
    records = []
    for acknowledged in (0, 0, 2):
        coordinator.begin()
        records.append(commit(coordinator, acknowledged=acknowledged))
        coordinator.go_on()
    assert [sorted(record.rows) for record in records] == [[1], [1, 2], [3]]
    later = Coordinator(3, records[1])
    later.begin()
    assert sorted(commit(later).rows) == [1, 2, 3]


def test_a_loss_takes_the_parts_of_a_cut():
    coordinator = Coordinator(1)
    coordinator.recut()
    assert coordinator.phase is Phase.RUNNING
    coordinator.begin()
    coordinator.add(0, MemberPart(b"s0"))
    coordinator.recut()
    assert coordinator.phase is Phase.CUTTING
    assert coordinator.awaits(0, 1)


def test_no_phase_is_left_out():
    coordinator = Coordinator(1)
    for call in (coordinator.seal, coordinator.go_on, lambda: coordinator.parts):
        with pytest.raises(AssertionError):
            call()
    coordinator.begin()
    with pytest.raises(AssertionError):
        coordinator.begin()
