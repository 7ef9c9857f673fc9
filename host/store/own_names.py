"""Names that Penstock gives to files: it removes no file of another name.

Folders are the user's: other files may lie beside ours, and have names like ours. So a file is
removed only if its whole name is one that Penstock writes there, or that of an unfinished write of
such a file.
"""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from pathlib import Path

#: Regular expression of what ``uuid.uuid4().hex`` gives.
UUID = "[0-9a-f]{32}"
#: Regular expression of a whole number as ``str`` gives it.
NUMBER = "(?:0|[1-9][0-9]*)"
#: Name of an unfinished write, with the folders before it: see :func:`.atomic.atomic`.
_UNFINISHED = re.compile(rf"((?:.*/)?)\.([^/]+)\.{UUID}\.partial", re.DOTALL)


class OwnNames:
    """Names of the files of one kind of folder.

    Parameters
    ----------
    patterns : str
        Regular expressions of whole names, relative to the folder, with ``/`` between parts, and
        at the end of a folder's name.
    """

    def __init__(self, *patterns: str) -> None:
        self._whole = re.compile("|".join(f"(?:{one})" for one in patterns) or "(?!)")

    def has(self, name: str) -> bool:
        """Whether a finished file has this name."""
        return self._whole.fullmatch(name) is not None

    def has_unfinished(self, name: str) -> bool:
        """Whether an unfinished write has this name."""
        match = _UNFINISHED.fullmatch(name)
        return match is not None and self.has(match[1] + match[2])

    def __contains__(self, name: str) -> bool:
        return self.has(name) or self.has_unfinished(name)

    def clear(self, folder: Path) -> None:
        """Remove files and emptied folders of these names, and the folder if nothing is left in it.

        Whatever cannot be removed stays.
        """
        for path in sorted(folder.rglob("*"), reverse=True):  # files before their folders
            name, is_folder = path.relative_to(folder).as_posix(), path.is_dir()
            if not path.is_symlink() and (f"{name}/" if is_folder else name) in self:
                with suppress(OSError):
                    path.rmdir() if is_folder else path.unlink()
        with suppress(OSError):
            folder.rmdir()

    def clear_trees(self, folder: Path) -> None:
        """Remove a folder's files with these names, and its folders with all that is in them."""
        for path in folder.iterdir():
            if path.name not in self:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
