"""Folders whose content is believed are this user's alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.errors import FileError
from penstock.private_folder import private_folder, private_folder_if_possible


def opened(path: Path) -> None:
    with private_folder(path):
        pass


def test_it_is_made_for_its_user_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with private_folder(tmp_path / "a" / "b") as folder:
            folder.write("file", b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "a" / "b" / "file").stat().st_mode & 0o777 == 0o600


def test_one_that_others_could_only_read_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "old"
    path.mkdir()
    path.chmod(0o755)
    with private_folder(path) as folder:
        assert folder.read("nothing") is None
    assert path.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_one_in_which_others_may_write_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "open"
    path.mkdir()
    path.chmod(mode)
    with pytest.raises(FileError, match=rf"others may write in the folder {path} \(mode {mode:o}"):
        opened(path)
    with pytest.raises(FileError, match=f"rm -r {path}"), private_folder_if_possible(path):
        pass


def test_one_of_another_user_is_refused(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        path = tmp_path / "theirs"
        path.mkdir(mode=0o700)
        os.chown(path, 12345, 12345)
    else:
        path = Path("/usr")
    with pytest.raises(FileError, match=rf"{path} belongs to user \d+, not to user {os.geteuid()}"):
        opened(path)


@pytest.mark.parametrize("target", ["there", "missing"])
def test_a_link_is_refused(tmp_path: Path, target: str) -> None:
    """Also one to a folder that would do, and one that would be made where it points."""
    (tmp_path / "there").mkdir(mode=0o700)
    path = tmp_path / "link"
    path.symlink_to(tmp_path / target)
    with pytest.raises(FileError, match=f"{path} is no folder but a link"):
        opened(path)
    assert not (tmp_path / "missing").exists()


def test_files_are_no_links_and_stay_in_the_folder_that_was_checked(tmp_path: Path) -> None:
    path = tmp_path / "own"
    (tmp_path / "precious").write_text("precious")
    with private_folder(path) as folder:
        (path / "file").symlink_to(tmp_path / "precious")
        with pytest.raises(OSError, match="symbolic links"):
            folder.read("file")
        with pytest.raises(OSError, match="symbolic links"):
            folder.open("file", os.O_RDWR | os.O_CREAT)
        folder.write("file", b"own")
        assert folder.read("file") == b"own"
        # Somebody puts another folder in its place.
        path.rename(tmp_path / "moved")
        path.mkdir()
        (path / "file").write_text("planted")
        assert folder.read("file") == b"own"
        folder.write("more", b"more")
    assert (tmp_path / "precious").read_text() == "precious"
    assert sorted(file.name for file in path.iterdir()) == ["file"]
    assert sorted(file.name for file in (tmp_path / "moved").iterdir()) == ["file", "more"]


def test_where_nothing_can_be_kept_a_cache_does_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with private_folder_if_possible(tmp_path / "file" / "below") as folder:
        assert folder is None
