"""How-to pages whose blocks are run: each has a mark that says what becomes of it."""

from __future__ import annotations

import re
from collections.abc import Set
from pathlib import Path

DOCS = Path(__file__).resolve().parents[3] / "docs"
_BLOCK = re.compile(r"<!-- ([a-z-]+) -->\n```sh\n(.*?)```\n", re.S)


def blocks(page: str, marks: Set[str]) -> list[tuple[str, str]]:
    """Marks and texts of a page's blocks; each must have one of the marks."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = [(match[1], match[2]) for match in _BLOCK.finditer(text)]
    assert len(found) == text.count("```sh"), f"a block of {page} has no mark"
    assert {mark for mark, _ in found} <= marks
    return found
