"""Paths and URIs of files, read in one place for Python, the command line and Spark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from glob import glob, has_magic
from os import PathLike, fspath
from pathlib import Path
from urllib.parse import urlsplit

from penstock.errors import UsageError

#: A ``pathlib.Path`` of a URI has lost a slash, so one is enough to know a URI by.
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(/+)")


@dataclass(frozen=True)
class Location:
    """Place of files: a path or a URI.

    Parameters
    ----------
    text : str
        As the user wrote it.
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
    def parse(cls, named: str | PathLike) -> Location:
        """Read a path or URI.

        Raises
        ------
        UsageError
            It is empty, has a NUL, or is a ``file:`` URI with another host or a query.
        """
        text = fspath(named)
        if not isinstance(text, str) or not text or "\0" in text:
            raise UsageError(f"a path is text, not empty and without a NUL, not {named!r}")
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
        from urllib.request import url2pathname  # it loads an HTTP client, which few processes need

        return cls(text, "", Path(url2pathname(parts.path)), text)


def local_path(named: str | PathLike, reason: str = "files of this machine are used here") -> Path:
    """Read a path, or a ``file:`` URI, of a file or folder on this machine.

    Parameters
    ----------
    named : str or path
    reason : str
        End of the message about any other URI.

    Raises
    ------
    UsageError
        It names another place.
    """
    location = Location.parse(named)
    if location.path is None:
        raise UsageError(f"{location.shown} is no file or folder of this machine: {reason}")
    return location.path


def matched(path: Path) -> Sequence[Path]:
    """Return the files that a pattern matches, in order; a path that is none is returned alone."""
    if not has_magic(str(path)) or path.exists():
        return [path]
    return [Path(one) for one in sorted(glob(str(path), recursive=True))]
