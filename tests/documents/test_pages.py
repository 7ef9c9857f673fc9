"""Every block of README and docs is run, or says why not."""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatch

import pytest

from tests.kit.documents import ROOT, Block, blocks, pages
from tests.kit.page_run import check_imports, run_page

#: Tests that run pages, or blocks of a language, with set-ups of their own.
ELSEWHERE = {
    ("docs/gallery/*.md", "python"): "tests/examples/test_pages.py",
    ("docs/gallery/*.md", "text"): "tests/examples/test_pages.py",
    ("docs/hardware/first-join-*.md", "sh"): "tests/host/board/test_first_joins.py",
    ("docs/spark/cluster.md", "sh"): "tests/spark_bridge/cluster/test_board.py",
    ("docs/streams/lookup.md", "ini"): "tests/host/lookup/nodes/test_docs.py",
    ("docs/streams/lookup.md", "yaml"): "tests/host/lookup/nodes/test_docs.py",
}
#: Pages that take longer than a few seconds.
SLOW = {
    "docs/hardware/pipeline.md",
    "docs/streams/lookup.md",
    "docs/hardware/planning.md",
    "docs/streams/server.md",
    "docs/hardware/window-operator.md",
    "docs/streams/workers.md",
}

BLOCKS = [block for page in pages() for block in blocks(page)]


def elsewhere(block: Block) -> str | None:
    """The test that runs it, if it is not one of these."""
    for (page, language), test in ELSEWHERE.items():
        if fnmatch(block.page, page) and block.language == language:
            return test
    return None


def runs(block: Block) -> bool:
    """Whether it is run with its page."""
    if block.why_not_run is not None or elsewhere(block):
        return False
    return block.language == "python" or block.mark in ("run", "server", "in spark")


def needs_spark(page: str) -> bool:
    return any("pyspark" in block.text for block in blocks(page) if runs(block))


RUN = [page for page in pages() if any(map(runs, blocks(page)))]


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_is_run_or_says_why_not(block):
    if (test := elsewhere(block)) is not None:
        code = (ROOT / test).read_text("utf-8")
        folder, name = block.page.rsplit("/")[-2:]
        # It names the page, or runs all of a folder.
        assert name.split("-")[0].split(".")[0] in code or f'"{folder}"' in code
    elif block.why_not_run is not None:
        assert len(block.why_not_run.split()) > 1, f"{block} says no reason"
        if block.language == "python":
            check_imports(block)
    elif block.language == "sh":  # its commands are checked, whether they run or not
        assert block.mark in ("", "run", "server"), f"{block} has the mark {block.mark!r}"
    else:
        assert block.language in ("python", "sql"), f"{block} is run by nothing; say why not"
        assert block.mark in ("", "in spark"), f"{block} has the mark {block.mark!r}"


def test_what_is_not_run(record_property):
    """Says why, below the results."""
    reasons = Counter(block.why_not_run for block in BLOCKS if block.why_not_run is not None)
    for reason, count in reasons.items():
        record_property("not run in documents", f"{count} x {reason}")
    assert reasons.total() < len(BLOCKS) / 8


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.slow if page in SLOW else ())
        for page in RUN
        if not needs_spark(page)
    ],
)
def test_a_page_runs(page, tmp_path):
    run_page(page, tmp_path)
