"""Links within README, docs and the changelog lead to files, and to headings of them."""

from __future__ import annotations

import re

import pytest

from tests.kit.documents import ROOT, pages, prose

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.M)


def anchors(page: str) -> set[str]:
    """Names that GitHub gives to the headings of a page."""
    found: set[str] = set()
    for heading in _HEADING.findall(prose(page)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        count = sum(re.fullmatch(rf"{re.escape(name)}(-\d+)?", one) is not None for one in found)
        found.add(f"{name}-{count}" if count else name)
    return found


@pytest.mark.parametrize("page", [*pages(), "CHANGELOG.md"])
def test_links_lead_somewhere(page):
    for link in _LINK.findall(prose(page)):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert target.exists(), f"{page}: there is no {path}"
        if anchor:
            known = anchors(target.resolve().relative_to(ROOT).as_posix())
            assert anchor in known, f"{page}: {path} has no heading #{anchor}"
