"""Compiled functions are kept from run to run, and nothing else is loaded in their place."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import pickle
import signal
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from numba import njit

from penstock import kept_code
from penstock.errors import FileError
from penstock.kept_code import keep
from tests.kit.foreign import ForeignFiles

#: Forms that a program keeps in turn, and how many of them its folder has room for.
FORMS, ROOM = 6, 3
#: Longest time that such a program lives, and longest wait for its word, in seconds.
LAST_S, WORD_S = 0.3, 60


def total(values: Any) -> Any:
    result = 0
    for value in values:
        result += value
    return result


def compiled(*depends: bytes) -> Any:
    return keep(njit(total), b"source", *depends)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(tmp_path))
    return tmp_path / "kernels"


def loaded(function: Any) -> int:
    return sum(function.stats.cache_hits.values())


def loaded_again() -> int:
    function = compiled()
    assert function(ONES) == 5
    return loaded(function)


ONES = np.ones(5, np.int64)


def test_one_file_for_each_form(folder: Path) -> None:
    """So that processes that compile at the same time never overwrite another's form."""
    first, second = compiled(), compiled()
    # Both begin before either has kept anything, as two processes would.
    assert first(ONES) == 5
    assert second(ONES.astype(np.float32)) == 5
    assert len(list(folder.iterdir())) == 2
    again = compiled()
    assert (again(ONES), again(ONES.astype(np.float32))) == (5, 5)
    assert loaded(again) == 2


def test_what_it_calls_is_part_of_the_name(folder: Path) -> None:
    assert compiled(b"one")(ONES) == 5
    other = compiled(b"two")
    assert other(ONES) == 5
    assert loaded(other) == 0


class Planted:
    """Makes a folder when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


def test_planted_code_is_not_run(folder: Path, tmp_path: Path) -> None:
    """Where others could have written, nothing is read, and the error names the folder."""
    assert compiled()(ONES) == 5
    (file,) = folder.iterdir()
    data = pickle.dumps(Planted(tmp_path / "mark"))
    file.write_bytes(hashlib.sha256(data).digest() + data)
    folder.chmod(0o777)
    with pytest.raises(FileError, match=f"others may write in the folder {folder}"):
        compiled()(ONES)
    assert not (tmp_path / "mark").exists()


def test_the_index_of_numba_is_not_read(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numba's own cache executes what lies in its folder; the same files are planted here."""
    monkeypatch.setattr("numba.core.config.CACHE_DIR", str(tmp_path / "numba"))
    assert njit(cache=True)(total)(ONES) == 5
    (index,) = (tmp_path / "numba").rglob("*.nbi")
    index.write_bytes(pickle.dumps(Planted(tmp_path / "mark")))
    assert compiled()(ONES) == 5
    assert not (tmp_path / "mark").exists()


def test_a_damaged_file_is_compiled_anew(folder: Path) -> None:
    assert compiled()(ONES) == 5
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    for damaged in (b"", whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1])):
        file.write_bytes(damaged)
        again = compiled()
        assert again(ONES) == 5
        assert loaded(again) == 0
        assert loaded_again() == 1


def test_without_a_folder_it_still_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PENSTOCK_CACHE_DIR", str(tmp_path / "file"))
    assert compiled()(ONES) == 5


def test_what_was_of_no_use_for_longest_makes_room(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compiled(b"old")(ONES) == 5
    assert compiled(b"used")(ONES) == 5
    size = max(path.stat().st_size for path in folder.iterdir())
    (first, second) = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    os.utime(second, ns=(0, 0))
    os.utime(first, ns=(1, 1))
    # Being loaded is of use.
    assert loaded_by(compiled(b"used")) == 1
    monkeypatch.setattr(kept_code, "LOOK_AT_ONE_OF", 1)
    monkeypatch.setattr(kept_code, "MOST_BYTES", size * 5 // 2)
    assert compiled(b"new")(ONES) == 5
    assert len(list(folder.iterdir())) == 2
    monkeypatch.setattr(kept_code, "MOST_BYTES", 1 << 30)
    assert [loaded_by(compiled(what)) for what in (b"used", b"new", b"old")] == [1, 1, 0]


def loaded_by(function: Any) -> int:
    assert function(ONES) == 5
    return loaded(function)


def keep_until_killed(cache: str, room: int, says: Connection) -> None:
    """Compile, keep and load forms, of which the folder has room for some."""
    os.environ["PENSTOCK_CACHE_DIR"] = cache
    kept_code.MOST_BYTES, kept_code.LOOK_AT_ONE_OF = room, 1
    for number in count():
        assert compiled(b"%d" % (number % FORMS))(ONES) == 5
        says.send(number)


@pytest.mark.parametrize("kills", [2, pytest.param(100, marks=pytest.mark.slow)])
def test_kill_9_at_random(folder: Path, kills: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept is whole, and files of a user in the folder stay as they are."""
    assert compiled(b"0")(ONES) == 5
    size = max(path.stat().st_size for path in folder.iterdir())
    monkeypatch.setattr(kept_code, "LOOK_AT_ONE_OF", 1)
    monkeypatch.setattr(kept_code, "MOST_BYTES", ROOM * size)
    foreign, random = ForeignFiles(), Random(kills)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    for _ in range(kills):
        foreign.put(folder, "total-1", f"total-{'0' * 31}", f".total-{'0' * 32}.part")
        hears, says = context.Pipe(duplex=False)
        arguments = str(folder.parent), ROOM * size, says
        child = context.Process(target=keep_until_killed, args=arguments)
        child.start()
        says.close()
        assert hears.poll(WORD_S)
        child.join(random.uniform(0, LAST_S))
        child.kill()
        child.join(WORD_S)
        hears.close()
        assert child.exitcode == -signal.SIGKILL
        foreign.require_untouched()
        own = [path for path in folder.iterdir() if path not in foreign]
        assert sum(path.stat().st_size for path in own) <= (ROOM + 1) * size + 1000
        assert compiled(b"%d" % random.randrange(FORMS))(ONES) == 5
