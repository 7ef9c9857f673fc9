"""Files of a user beside Penstock's, with names like these: they must stay as they are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

#: A month ago: older than what any sweep waits for.
_AGE_S = 30 * 24 * 3600.0
_NAMES = (
    "report.state", "report.rows", "x.partial", ".x.partial", ".DS_Store", "run-1.txt", "3-notes",
    "part-0000000001-0000.state", "part-0000000001-0000-" + "5" * 32 + ".rows", "12.json.bak",
    "notes.json", "00012.json", "0.pages", "1-report.arrow", "00001-report.parquet",
)  # fmt: skip
_LIKE = ("{}.bak", "copy-{}", "{}.partial", ".{}.partial", ".{}", "{}~")


class ForeignFiles:
    """Files that are put into folders, to see later that nobody has touched them."""

    def __init__(self) -> None:
        self._files: dict[Path, bytes] = {}

    def put(self, folder: Path, *names: str) -> None:
        """Put files into a folder, which may be missing: of names like those that are there."""
        folder.mkdir(parents=True, exist_ok=True)
        own = [p.name for p in folder.iterdir() if p.is_file() and p not in self._files]
        like = [form.format(name) for name in own for form in _LIKE]
        for name in (*_NAMES, *names, *like):
            path = folder / name
            if len(name) < 200 and not path.exists():
                path.parent.mkdir(exist_ok=True)
                path.write_text(f"mine: {name}")
                changed = path.stat().st_mtime - _AGE_S
                os.utime(path, (changed, changed))
                self._files[path] = path.read_bytes()

    def __contains__(self, path: Path) -> bool:
        return path in self._files

    def __iter__(self) -> Iterator[Path]:
        return iter(self._files)

    def require_untouched(self) -> None:
        """Fail unless all are as they were."""
        assert self._files
        for path, content in self._files.items():
            assert path.is_file(), f"{path} was removed"
            assert path.read_bytes() == content, f"{path} was changed"
