"""Lay the packages out as one tree of links, for type checkers.

``penstock.hw`` lives in ``hw/`` and so on (see ``[tool.setuptools.package-dir]``), which an import
hook resolves at run time and a type checker cannot. ``build/types/penstock`` is the tree it sees:
real folders with a link to every Python file, since pyright does not look for files to check
behind links to folders. ``build/types/examples`` has the examples, which import each other by name.
"""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / "build" / "types"


def wanted() -> dict[Path, Path]:
    """Each link, relative to the tree, and the file it points to."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        folders = tomllib.load(file)["tool"]["setuptools"]["package-dir"]
    links = {}
    for package, folder in folders.items():
        prefix = Path(*package.split(".")[1:])
        for pattern in ("*.py", "*.pyi", "py.typed"):
            for source in (ROOT / folder).rglob(pattern):
                links[Path("penstock", prefix, source.relative_to(ROOT / folder))] = source
    for source in (ROOT / "examples").glob("*.py"):
        links[Path("examples", source.name)] = source
    return links


def main() -> int:
    """Make the tree; links that are right already stay, so that it is quick and repeatable."""
    links = wanted()
    for path in [p for p in TREE.rglob("*") if p.is_symlink()]:
        if path.relative_to(TREE) not in links:
            path.unlink()
    for name, target in links.items():
        link = TREE / name
        link.parent.mkdir(parents=True, exist_ok=True)
        text = os.path.relpath(target, link.parent)
        if not (link.is_symlink() and link.readlink() == Path(text)):
            link.unlink(missing_ok=True)
            link.symlink_to(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
