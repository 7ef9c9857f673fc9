"""The bench of long queries measures in processes of their own, and tells rows from refusals."""

from __future__ import annotations

import json

import pytest

from bench.host import limits


def test_every_query_is_text_of_its_own() -> None:
    texts = [make() for make in (limits.RUN | limits.LARGER).values()]
    assert len(set(texts)) == len(texts)
    assert all(text.startswith("SELECT ") for text in texts)


def test_what_a_process_says(capsys: pytest.CaptureFixture[str]) -> None:
    limits._child("60 joins")
    seconds, processor, _, said = json.loads(capsys.readouterr().out)
    assert "more than 8" in said
    assert seconds > 0
    assert processor > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "outcome"), [("CASE 60 deep", " rows"), ("60 joins", "60 joins, more than 8")]
)
def test_a_query_is_measured(name: str, outcome: str) -> None:
    seconds, processor, grown, said = limits._measured(name)
    assert outcome in said
    assert seconds > 0
    assert processor > 0
    assert grown < limits.MOST_MB
