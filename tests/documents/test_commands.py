"""Commands of README and docs exist and know their options; those of blocks may run, too."""

from __future__ import annotations

import re

import pytest

from tests.kit.commands import check
from tests.kit.documents import blocks, pages, prose
from tests.kit.shell_calls import shell_calls

_INLINE = re.compile(r"`([^`]+)`")
_COMMAND = re.compile(r"(pytest|make|penstock|pip|python3?) [^`]+")

#: Of each page, what its shell blocks say.
SHELL = {
    page: "".join(block.text for block in blocks(page) if block.language == "sh")
    for page in pages()
}


@pytest.mark.parametrize("page", [page for page in SHELL if SHELL[page]])
def test_commands_of_blocks(page):
    calls, written = shell_calls(SHELL[page])
    assert calls
    for call in calls:
        check(call, written)


@pytest.mark.parametrize("page", pages())
def test_commands_in_sentences(page):
    spans = [" ".join(span.split()) for span in _INLINE.findall(prose(page))]
    commands = [span for span in spans if _COMMAND.fullmatch(span)]
    calls, _ = shell_calls("\n".join(commands))
    assert len(calls) == len(commands)
    for call in calls:
        check(call)


@pytest.mark.parametrize(
    "text",
    [
        "penstock sql 'SELECT 1' --tabel a=a.parquet",
        "penstock relation rebuild",
        "penstock plan --units many",
        "python -m bench.nothing",
        "python -m bench.workers --only latencies",
        "python nothing.py",
        "make bench-nothing",
        "make bench-workers ARGS='--only latencies'",
        "pytest tests/nothing",
        "pytest tests/documents -k qqq" + "qqq",
        "pip install '.[spark,jawa]'",
        "pip install 'penstock[spark]'",
        "rm -rf /",
    ],
)
def test_what_is_wrong_is_noticed(text):
    ((call,), _) = shell_calls(text)
    with pytest.raises(BaseException, match=r".+") as raised:
        check(call)
    assert not isinstance(raised.value, (KeyboardInterrupt, SystemExit))
