"""Checks of the files and folders of a command: no output may replace an input."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from penstock.host.rows.location import Location, local_path, matched

from ..errors import UsageError

#: Parameters of commands that name what is written.
WRITTEN = frozenset({"out", "output", "stats", "trace", "vcd", "picture"})
#: Parameters with text that names what is read, perhaps as NAME=PLACE. Others are of type Path.
READ = frozenset({"table", "relation", "file", "location", "upserts", "deletes", "append"})


def local_places(values: Mapping[str, Any]) -> dict[str, Any]:
    """Check the values of a command's parameters; ``file:`` URIs become paths.

    Raises
    ------
    UsageError
        A path is no file or folder of this machine, or an output is also read, or lies in a folder
        that is read, or two outputs are the same.
    """
    local = {name: _local(name, value) for name, value in values.items()}
    read = [
        text
        for name, value in local.items()
        for text in (value if isinstance(value, list) else [value])
        if name not in WRITTEN and (isinstance(text, Path) or (text and name in READ))
    ]
    places = dict.fromkeys(place for text in read for place in _places(text))
    written: dict[Path, str] = {}
    for name in local.keys() & WRITTEN:
        out = local[name] and Location.of(local[name]).path
        if out is None or not str(out):
            continue
        _check_output(f"--{name} {out}", out, places)
        if (other := written.setdefault(out.resolve(), name)) != name:
            raise UsageError(f"--{other} and --{name} both name {out}; give each its own file")
    return local


def _local(name: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_local(name, one) for one in value]
    what = f"--{name.replace('_', '-')} takes only these"
    return local_path(value, what) if isinstance(value, Path) else value


def _places(named: str | Path) -> Iterator[Path]:
    """Yield existing files that a parameter names, by its text or by PLACE of NAME=PLACE."""
    for text in {str(named), str(named).partition("=")[2]} - {""}:
        location = Location.of(text)
        if location.path is not None:
            yield from (path for path in matched(location.path) if path.exists())


def _check_output(shown: str, out: Path, places: Iterable[Path]) -> None:
    for place in places:
        inside = place.rglob("*") if place.is_dir() and out.is_file() else ()
        if out.exists() and any(one.exists() and one.samefile(out) for one in (place, *inside)):
            raise UsageError(
                f"{shown} is read by this command, as {place}, and would be replaced; choose "
                "another name"
            )
        if place.is_dir() and place.resolve() in out.resolve().parents:
            raise UsageError(
                f"{shown} would be a file of {place}, which this command reads; choose another "
                "folder"
            )
