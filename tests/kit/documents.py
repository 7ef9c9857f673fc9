"""README and docs, in blocks: what stands between fences, and what becomes of it.

A comment above a fence is the mark of its block: ``<!-- run -->``, or ``<!-- not run: why -->``.
"""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
_MARK = re.compile(r"<!-- ([^>]*) -->\s*\Z")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Parameters
    ----------
    line : int
        Line of the page on which its text begins, from 1.
    mark : str
        What the comment above it says, or nothing.
    """

    page: str
    line: int
    language: str
    mark: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def why_not_run(self) -> str | None:
        """The reason that the page gives for not running it, if it is not run."""
        what, found, reason = self.mark.partition("not run: ")
        return reason.strip() if found and not what else None


def pages() -> list[str]:
    """README and all pages of docs, by their paths."""
    docs = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.md"))
    return ["README.md", *docs]


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    """The blocks of a page, in order."""
    whole = text(page)
    found = []
    for match in _FENCE.finditer(whole):
        mark = _MARK.search(whole[: match.start()])
        line = whole.count("\n", 0, match.start(2)) + 1
        found.append(Block(page, line, match[1], mark[1] if mark else "", match[2]))
    assert 2 * len(found) == whole.count("```"), (
        f"{page} has a fence that is not closed or indented"
    )
    return found


def prose(page: str) -> str:
    """A page without its blocks."""
    return _FENCE.sub("", text(page))


def marked(page: str, marks: Set[str]) -> list[tuple[str, str]]:
    """Marks and texts of a page's shell blocks, for pages that run with set-ups of their own."""
    found = [block for block in blocks(page) if block.language == "sh"]
    for block in found:
        assert block.mark in marks, f"{block} has the mark {block.mark!r}, which is none of {marks}"
    return [(block.mark, block.text) for block in found]
