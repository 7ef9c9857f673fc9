"""Files of a user beside Penstock's, with names like these: they must stay as they are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

#: A month ago: older than what any sweep waits for.
_AGE_S = 30 * 24 * 3600.0
_ID = "5" * 32
_NAMES = (
    "report.state", "report.rows", "x.partial", ".x.partial", ".DS_Store", "run-1.txt", "3-notes",
    "part-0000000001-0000.state", f"part-0000000001-0000-{_ID}.rows", "12.json.bak", "notes.json",
    "00000.json", "00012.json", "0-00.json", f".00.json.{_ID}.partial", "0.pages",
    f"{'A' * 32}.pages", "1-report.arrow", f"00-{_ID}.arrow", "00001-report.parquet",
    f"000000-{_ID}.parquet",
)  # fmt: skip
_LIKE = ("{}.bak", "copy-{}", "{}.partial", ".{}.partial", ".{}", "{}~")
#: Names of folders with files in them, and of links to the first of these or to a file in it.
_FOLDERS = ("mine.d", f"{_ID}.pages", f"1-{_ID}.arrow", f"00000-{_ID}.parquet")
_FOLDER_LINKS = (".sort.abcd1234", f".r.{_ID}.partial", "link.d")
_FILE_LINKS = ("link.state", "00.json", f"{_ID}.link")


class ForeignFiles:
    """Files, folders and links put into folders, to see later that nobody has touched them."""

    def __init__(self) -> None:
        #: A file's content and time of writing in ns, a link's target, None of a folder.
        self._files: dict[Path, tuple[bytes, int] | str | None] = {}

    def put(self, folder: Path, *names: str) -> None:
        """Put files, folders, and links to these, into a folder, which may be missing."""
        self.put_files(folder, *names)
        for name in _FOLDERS:
            for inner in ("run-1", "rows", "mine"):
                self._write(folder / name / inner, b"mine")
        for name in (*_FOLDER_LINKS, *_FILE_LINKS):
            link, target = folder / name, "mine.d" if name in _FOLDER_LINKS else "mine.d/mine"
            if not os.path.lexists(link):
                link.symlink_to(target)
                self._files[link] = target

    def put_files(self, folder: Path, *names: str) -> None:
        """Put files into a folder: copies of its files, and others with names like theirs."""
        folder.mkdir(parents=True, exist_ok=True)
        own = [p for p in folder.iterdir() if p.is_file() and p not in self._files]
        for name in (*_NAMES, *names):
            self._write(folder / name, f"mine: {name}".encode())
        for path in own:
            try:
                content = path.read_bytes()
            except FileNotFoundError:  # an unfinished write, which has its name by now
                continue
            for form in _LIKE:
                self._write(folder / form.format(path.name), content)

    def _write(self, path: Path, content: bytes) -> None:
        if len(path.name) >= 200 or os.path.lexists(path):
            return
        if not path.parent.exists():
            path.parent.mkdir()
            self._files[path.parent] = None
        path.write_bytes(content)
        path.chmod(0o400)
        changed = path.stat().st_mtime - _AGE_S
        os.utime(path, (changed, changed))
        self._files[path] = content, path.stat().st_mtime_ns

    def __contains__(self, path: Path) -> bool:
        return path in self._files

    def __iter__(self) -> Iterator[Path]:
        return iter(self._files)

    def require_untouched(self) -> None:
        """Fail unless all are as they were."""
        assert self._files
        for path, before in self._files.items():
            assert os.path.lexists(path), f"{path} was removed"
            now: tuple[bytes, int] | str | None = None
            if path.is_symlink():
                now = os.readlink(path)
            elif path.is_file():
                now = path.read_bytes(), path.stat().st_mtime_ns
            assert now == before, f"{path} was changed"
