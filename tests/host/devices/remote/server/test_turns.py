"""Whose task is next."""

from __future__ import annotations

import pytest

from penstock.errors import OverloadError
from penstock.host.devices.remote.server.runner import Turns


def test_one_of_each_client_in_turn() -> None:
    turns: Turns[str] = Turns(depth=9)
    for item in ("a1", "a2", "a3", "b1", "c1", "c2"):
        turns.add(item[0], item)
    assert [turns.next() for _ in range(4)] == ["a1", "b1", "c1", "a2"]
    turns.add("b", "b2")
    assert [turns.next() for _ in range(4)] == ["c2", "a3", "b2", None]
    assert len(turns) == 0


def test_a_client_that_comes_later_waits_for_one_task_of_each_other() -> None:
    turns: Turns[str] = Turns(depth=100)
    for k in range(100):
        turns.add("busy", f"busy {k}")
    turns.next()
    turns.add("late", "late 0")
    assert [turns.next(), turns.next()] == ["busy 1", "late 0"]


def test_the_depth_is_of_one_client() -> None:
    turns: Turns[int] = Turns(depth=2)
    turns.add("a", 1)
    turns.add("a", 2)
    with pytest.raises(OverloadError, match="2 tasks of this client wait"):
        turns.add("a", 3)
    turns.add("b", 4)
    assert len(turns) == 3
    turns.next()
    turns.add("a", 3)


def test_a_client_who_has_to_wait_keeps_its_place() -> None:
    turns: Turns[str] = Turns(depth=5)
    for item in ("a1", "b1", "b2"):
        turns.add(item[0], item)
    assert turns.next(["a"]) == "b1"
    assert turns.next(["a", "b"]) is None
    assert turns.next() == "a1"
    assert turns.next() == "b2"


def test_what_is_dropped_is_gone() -> None:
    turns: Turns[int] = Turns(depth=5)
    turns.add("a", 1)
    turns.add("a", 2)
    turns.add("b", 3)
    assert turns.drop("a") == [1, 2]
    assert turns.drop("a") == []
    assert turns.next() == 3
    assert turns.next() is None


def test_what_was_begun_goes_on_in_the_next_turn_of_its_client() -> None:
    turns: Turns[str] = Turns(depth=2)
    for item in ("a1", "a2", "b1"):
        turns.add(item[0], item)
    assert turns.next() == "a1"
    turns.again("a", "a1")
    assert [turns.next() for _ in range(4)] == ["b1", "a1", "a2", None]
