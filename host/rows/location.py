"""Places of files as users name them, by path or URI: every entrance reads them here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from os import PathLike, fspath
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from penstock.errors import UsageError

#: A ``pathlib.Path`` of a URI has lost a slash, so one is enough to know a URI by.
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(/+)")


@dataclass(frozen=True)
class Location:
    """A place of files.

    Parameters
    ----------
    text : str
        As it was named.
    scheme : str
        In lower case; "" for a path and for a ``file:`` URI.
    path : Path or None
        On this machine's file system; None for other schemes.
    shown : str
        For messages: without user, password and options.
    """

    text: str
    scheme: str
    path: Path | None
    shown: str

    @classmethod
    def of(cls, named: str | PathLike) -> Location:
        """Read a path or URI.

        Raises
        ------
        UsageError
            It is empty, has a NUL, or is a ``file:`` URI of another machine or with options.
        """
        text = fspath(named)
        if not isinstance(text, str) or not text or "\0" in text:
            raise UsageError(f"a path is text without a NUL, not {named!r}")
        match = _URI.match(text)
        if match is None:
            return cls(text, "", Path(text), text)
        scheme = match[1].lower()
        parts = urlsplit(text if scheme == "file" else f"{scheme}://{text[match.end() :]}")
        if scheme != "file":
            shown = f"{scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")
            return cls(text, scheme, None, shown)
        if parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
            raise UsageError(
                f"{text} is no file of this machine: write file:///PATH, with %3F for ? and %23 "
                "for #, or the path alone"
            )
        return cls(text, "", Path(url2pathname(parts.path)), text)


def local_path(named: str | PathLike, what: str = "files of this machine are used here") -> Path:
    """Read a path, or a ``file:`` URI, of a file or folder on this machine.

    Parameters
    ----------
    named : str or path
    what : str
        End of the message about any other URI.

    Raises
    ------
    UsageError
        It names another place.
    """
    location = Location.of(named)
    if location.path is None:
        raise UsageError(f"{location.shown} is no file or folder of this machine: {what}")
    return location.path


def matched(path: Path) -> Sequence[Path]:
    """Files that a path with ``*``, ``?`` or ``[`` matches, in order; any other path by itself."""
    if not has_magic(str(path)) or path.exists():
        return [path]
    return [Path(one) for one in sorted(glob(str(path), recursive=True))]
