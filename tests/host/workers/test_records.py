"""Checkpoints on disk: what is written comes back, and what is wrong is said with its remedy."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.errors import FileError, UsageError
from penstock.host.workers.checkpoint import Checkpoint, checkpoint_of, release_of
from penstock.host.workers.records.folder import CheckpointFolder, folder_id, shared
from penstock.host.workers.records.part_files import PartFile, read_part, write_part
from penstock.host.workers.records.record import NAMES, Record, write_record
from tests.kit.foreign import ForeignFiles


def record(number: int, states: list[PartFile], rows: dict[int, tuple[PartFile, ...]]) -> Record:
    admission = {"feeds": {"": [5, None]}}
    return Record(
        number,
        2,
        1,
        "SELECT 1",
        "f",
        "t int64",
        {0: 1 << 64},
        admission,
        0,
        tuple(states),
        rows,
        {"filtered": 3},
    )


def some(folder: Path, number: int) -> Record:
    """Write the parts of a record with one number of rows that nobody has acknowledged."""
    blocks = [b"", b"abc", memoryview(b"x" * 100_000)]
    name = f"part-{number:010d}-000"  # as earlier releases had it, without the folder's id
    states = [write_part(folder, f"{name}{rank}.state", blocks) for rank in range(2)]
    rows = write_part(folder, f"{name}0.rows", [b"rows"], rows=3)
    return record(number, states, {number: (rows,)})


def test_arguments_are_checked(tmp_path: Path) -> None:
    assert checkpoint_of(None) is None
    assert checkpoint_of(tmp_path) == Checkpoint(tmp_path)
    with pytest.raises(UsageError, match="path must be the path of a folder, not ''"):
        Checkpoint("")
    with pytest.raises(UsageError, match="every_s must be above 0, not 0"):
        Checkpoint("x", every_s=0)
    with pytest.raises(UsageError, match="checkpoint must be a path"):
        checkpoint_of(5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(UsageError, match="release must be 'commit' or 'now', not 'later'"):
        release_of("later")


def test_a_record_and_its_parts_come_back(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path / "new" / "one")
    assert folder.newest() is None
    written = some(folder.path, 7)
    folder.commit(written)
    found = folder.newest()
    assert found == written
    blocks = [bytes(block) for block in read_part(folder.path, found.states[1])]
    assert blocks == [b"", b"abc", b"x" * 100_000]
    folder.close()


def test_a_commit_removes_what_it_does_not_need(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    first = some(tmp_path, 1)
    folder.commit(first)
    (tmp_path / "mine.txt").touch()
    second = some(tmp_path, 2)
    second = replace(second, rows={**first.rows, **second.rows})  # 1 is not acknowledged
    folder.commit(second)
    kept = {part.name for part in second.parts} | {NAMES.name(2), "lock", "mine.txt"}
    assert {entry.name for entry in tmp_path.iterdir()} == kept
    folder.close()


def test_a_crash_between_parts_and_record_leaves_the_one_before(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    first = some(tmp_path, 1)
    folder.commit(first)
    left = write_part(tmp_path, f"part-{2:010d}-{0:04d}-{folder_id(tmp_path)}.state", [b"x"])
    found = folder.newest()  # there is no record of it
    assert found == first
    folder.tidy(found)
    assert not (tmp_path / left.name).exists()
    folder.close()


def test_files_of_the_user_stay(tmp_path: Path) -> None:
    foreign, folder = ForeignFiles(), CheckpointFolder(tmp_path)
    folder.commit(some(tmp_path, 1))
    foreign.put(tmp_path, NAMES.name(0))
    folder.commit(some(tmp_path, 2))
    folder.close()
    foreign.put(tmp_path)
    folder = CheckpointFolder(tmp_path)
    folder.tidy(folder.newest())
    folder.tidy(None)
    folder.close()
    foreign.require_untouched()


def test_a_folder_of_an_earlier_release(tmp_path: Path) -> None:
    """It wrote parts without an id, and nothing into the lock: what a record names is removed."""
    (tmp_path / "lock").touch()
    earlier = some(tmp_path, 1)
    write_record(tmp_path, earlier)
    foreign = ForeignFiles()
    foreign.put(tmp_path)
    with closing(CheckpointFolder(tmp_path)) as folder:
        assert folder.newest() == earlier
        folder.commit(some(tmp_path, 2))
        assert not any((tmp_path / part.name).exists() for part in earlier.parts)
    foreign.require_untouched()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("lock", "1234 mine"),
        ("lock", "1234"),
        *((name, kind) for name in ("lock", "ranks") for kind in ("folder", "link")),
    ],
)
def test_a_lock_of_another_program_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    place = tmp_path / "checkpoint" / name
    place.parent.mkdir()
    if kind == "folder":
        place.mkdir()
    elif kind == "link":
        place.symlink_to(tmp_path / "elsewhere")
    else:
        place.write_text(kind)
    with pytest.raises(FileError, match=f"its file {name} is another program's; give a folder wi"):
        CheckpointFolder(place.parent)
    assert not place.is_file() or place.read_text() == kind
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), r"part-0000000001-0001\.state is gone; "),
        (lambda path: os.truncate(path, 50), r"-0001\.state has 50 bytes, not 100,043; "),
        (
            lambda path: path.write_bytes(bytes([1]) + path.read_bytes()[1:]),
            r"-0001\.state is not what was written: its checksum is .*, not .*; ",
        ),
    ],
)
def test_a_damaged_part_is_an_error(tmp_path: Path, damage, message: str) -> None:
    folder = CheckpointFolder(tmp_path)
    folder.commit(some(tmp_path, 1))
    damage(tmp_path / "part-0000000001-0001.state")
    found = folder.newest()
    assert found is not None
    read_part(tmp_path, found.states[0])
    with pytest.raises(FileError, match=message) as caught:
        read_part(tmp_path, found.states[1])
    assert "bring the folder back from a copy, or begin anew" in str(caught.value)
    folder.close()


def test_a_name_of_another_program_may_be_no_text(tmp_path: Path) -> None:
    write_record(tmp_path, some(tmp_path, 1))
    Path(os.fsdecode(bytes(tmp_path) + b"/\xff.txt")).touch()
    folder = CheckpointFolder(tmp_path)
    newest = folder.newest()
    assert newest is not None
    assert newest.number == 1
    folder.close()


def test_a_damaged_record_is_no_reason_to_go_back_to_the_one_before(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    write_record(tmp_path, some(tmp_path, 1))
    write_record(tmp_path, some(tmp_path, 2))
    path = tmp_path / NAMES.name(2)
    path.write_text(path.read_text()[:-10])
    with pytest.raises(FileError, match=r"02\.json cannot be read: .*; bring the folder back"):
        folder.newest()
    path.write_bytes((tmp_path / NAMES.name(1)).read_bytes())
    with pytest.raises(FileError, match=f"it is a copy of {NAMES.name(1)}"):
        folder.newest()
    folder.close()


def test_a_record_of_another_query_is_refused(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    found = some(tmp_path, 1)
    folder.require(found, "select  1", "f", "t int64")
    with pytest.raises(FileError, match="is of the query 'SELECT 1', which computes something el"):
        folder.require(found, "SELECT 2", "g", "t int64")
    with pytest.raises(FileError, match="is of rows with t int64, not with t int32"):
        folder.require(found, "SELECT 1", "f", "t int32")
    folder.close()


def test_one_stream_at_a_time(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path)
    with pytest.raises(FileError, match="another stream uses the checkpoint in"):
        CheckpointFolder(tmp_path, lock_s=0.05)
    # A worker that outlives its stream by a moment keeps others out.
    command = [sys.executable, "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[folder.lock]) as child:
        folder.close()
        with pytest.raises(FileError, match="another stream uses"):
            CheckpointFolder(tmp_path, lock_s=0.05)
        child.kill()
    CheckpointFolder(tmp_path).close()


def test_a_folder_that_cannot_be_written_names_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileError, match=r"cannot make .*Not a directory; choose a location that"):
        CheckpointFolder(tmp_path / "file" / "sub")


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="is a file; give a folder"):
        CheckpointFolder(tmp_path / "file")


def test_ranks_of_an_earlier_start_keep_others_out_while_they_write(tmp_path: Path) -> None:
    CheckpointFolder(tmp_path).close()
    ranks = [shared(tmp_path), shared(tmp_path)]
    os.close(ranks.pop())
    with pytest.raises(FileError, match="another stream uses the checkpoint in"):
        CheckpointFolder(tmp_path, lock_s=0.05)
    os.close(ranks.pop())
    CheckpointFolder(tmp_path, lock_s=0.05).close()
