"""Pins, updates and vacuums that interrupt each other, step by step of their files."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from threading import Semaphore, Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.errors import FileError
from penstock.host.relation import FolderRelation, RelationOptions, build, open_relation
from penstock.host.relation.folder.pins import Pins
from penstock.host.relation.folder.reading import file_store, note_newest
from penstock.host.relation.folder.records import (
    HOLDS,
    NEWEST,
    PINS,
    RELATION_NAMES,
    VERSION_NAMES,
    VERSIONS,
)
from penstock.host.store import atomic
from penstock.host.store.file_store import FileStore
from tests.host.relation.model import row_list

#: Folders whose files decide which version is read; only what is done there is a step.
DECISIVE = (VERSIONS, HOLDS, PINS, NEWEST)
Program = Callable[[FolderRelation, FileStore], Any]
#: Longest wait for another thread, in seconds.
WAIT_S = 60


class Actor:
    """A program that stops before each of its steps, and goes on when it is told to."""

    def __init__(self, program: Program, location: str) -> None:
        self._go, self._stopped = Semaphore(0), Semaphore(0)
        self.has_ended = False
        self.result: Any = None
        self.error: BaseException | None = None
        files = SteppedStore(location)
        relation = FolderRelation(files)
        files.stop = self._step
        self._thread = Thread(target=self._run, args=(program, relation, files), daemon=True)
        self._thread.start()
        self._wait()

    def _run(self, program: Program, *given: Any) -> None:
        try:
            self._step()
            self.result = program(*given)
        except BaseException as error:
            self.error = error
        self.has_ended = True
        self._stopped.release()

    def _step(self) -> None:
        self._stopped.release()
        assert self._go.acquire(timeout=WAIT_S)

    def _wait(self) -> None:
        assert self._stopped.acquire(timeout=WAIT_S)

    def go(self, steps: int | None = None) -> int:
        """Do some steps, or all; returns how many there were."""
        done = 0
        while not self.has_ended and done != steps:
            self._go.release()
            self._wait()
            done += 1
        if self.has_ended:
            self._thread.join(WAIT_S)
            if self.error is not None:
                raise self.error
        return done


class SteppedStore(FileStore):
    """Files of which each look and each change is a step."""

    def __init__(self, location: str) -> None:
        super().__init__(location, lost="", again="", own_names=RELATION_NAMES)
        self.stop: Callable[[], None] = lambda: None

    def _before(self, name: str) -> None:
        if name.startswith(DECISIVE):
            self.stop()

    def put(self, name, content):
        self._before(name)
        return super().put(name, content)

    def put_new(self, name, content):
        self._before(name)
        return super().put_new(name, content)

    def _read(self, name):
        if not name.startswith(VERSIONS):  # what a version is made of never changes
            self._before(name)
        return super()._read(name)

    def size(self, name):
        self._before(name)
        return super().size(name)

    def names(self, folder):
        self._before(folder)
        return super().names(folder)

    def listed(self, folder, *, deep=False):
        self._before(folder)
        return super().listed(folder, deep=deep)

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            self._before(name)
            super().remove([name])


def rows(*keys: int) -> pa.Table:
    return pa.table({"id": keys, "name": [f"n{key}" for key in keys]})


def read(relation: FolderRelation, number: int | None = None) -> Counter:
    version = relation.version(number)
    return Counter(row_list(version.read(np.arange(len(version.index)), ["id", "name"]).batch))


#: Versions 1 to 4 of the relation have the keys below their number. These are written, but not
#: committed.
LATER = (3, 4)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """A relation whose version 2 is its newest one."""
    path = tmp_path_factory.mktemp("prepared") / "r"
    made = build(rows(0), str(path), RelationOptions(key=("id",)))
    for key in (1, 2, 3):
        made.append(rows(key), compact=False)
    for number in LATER:
        (path / VERSION_NAMES.name(number)).rename(path / str(number))
    note_newest(file_store(str(path)), made.id, 2)
    return path


@pytest.fixture
def place(prepared, tmp_path, monkeypatch) -> Callable[[], str]:
    """Make a new copy of the relation."""
    monkeypatch.setattr(atomic, "flush", lambda path: None)  # no machine crashes here

    def new() -> str:
        location = tmp_path / "r"
        shutil.rmtree(location, ignore_errors=True)
        shutil.copytree(prepared, location)
        return str(location)

    return new


def pin(relation: FolderRelation, files: FileStore) -> int:
    return relation.pin("q", 0)


def append(relation: FolderRelation, files: FileStore) -> int:
    return relation.append(rows(7), compact=False)


def commit_and_vacuum(relation: FolderRelation, files: FileStore) -> int:
    """Returns the last of the versions that it has committed itself."""
    last = 0
    for number in LATER:
        if not files.put_new(VERSION_NAMES.name(number), files.get(str(number)) or b""):
            break  # what follows is made of this one
        last = number
    relation.vacuum(keep_s=0)
    return last


def interleaved(
    first: Program,
    second: Program,
    place: Callable[[], str],
    check: Callable[[str, Any, Any], None],
) -> None:
    """Stop one program before each of its steps, do 0, 1, ... steps of the other, and end both."""
    counts = [0, 0]
    for before in count():
        for between in count():
            location = place()
            one, other = Actor(first, location), Actor(second, location)
            counts = [one.go(before), other.go(between)]
            one.go()
            other.go()
            check(location, one.result, other.result)
            if counts[1] < between:
                break
        if counts[0] < before:
            break
    assert min(counts) >= 7


def check_pinned(location: str, chosen: int) -> None:
    """A pinned version is there, and is the one of every task of its batch."""
    relation = open_relation(location)
    assert relation.pin("q", 0) == chosen
    assert read(relation, chosen) == Counter(row_list(rows(*range(chosen))))
    assert list(Path(location, HOLDS).iterdir()) == []


def test_a_pin_that_a_vacuum_interrupts(place):
    chosen = set()

    def check(location: str, number: int, _: int) -> None:
        chosen.add(number)
        check_pinned(location, number)

    interleaved(pin, commit_and_vacuum, place, check)
    assert chosen == {2, 3, 4}


@pytest.mark.slow
def test_a_vacuum_that_a_pin_interrupts(place):
    chosen = set()

    def check(location: str, _: int, number: int) -> None:
        chosen.add(number)
        check_pinned(location, number)

    interleaved(commit_and_vacuum, pin, place, check)
    assert chosen == {2, 3, 4}


@pytest.mark.slow
def test_an_update_that_a_vacuum_interrupts(place):
    """Numbers of versions that are removed do not become free for one that was overtaken."""

    def check(location: str, number: int, other: int) -> None:
        relation = open_relation(location)
        assert relation.newest() == max(number, other)
        assert read(relation) == Counter(row_list(rows(*range(max(2, other)), 7)))
        assert list(relation.check()) == []

    interleaved(append, commit_and_vacuum, place, check)


def test_holds_of_killed_programs(place):
    relation = open_relation(place())
    pins = Pins(file_store(relation.name))
    with pins.hold(relation) as number:
        assert pins.needed() == {number} == {2}
        relation.append(rows(5), compact=False)
        relation.vacuum(keep_s=0)
        assert relation.numbers() == [2, 3]
        relation.vacuum(keep_s=0, orphans_s=-1)
        assert relation.numbers() == [3]


def test_relations_that_change_too_often(place, monkeypatch):
    relation = open_relation(place())
    monkeypatch.setattr(relation, "is_newest", lambda number: False)
    with pytest.raises(FileError, match=r"no version of .* can be kept: 100 times in a row there"):
        relation.pin("q", 0)
    assert Pins(file_store(relation.name)).needed() == set()
