"""Hostile texts in every place of a query, with a canary file beside them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from penstock.cli.main import _status
from tests.fuzz import hostile
from tests.test_packaging import MODULES

#: In four parts, so that processes share them.
PARTS = [range(first, first + 1250) for first in range(0, 5000, 1250)]


@pytest.fixture
def folder(tmp_path: Path) -> hostile.Folder:
    made = hostile.Folder(tmp_path / "canary")
    made.path.mkdir()
    made.write()
    return made


def test_every_form_is_a_place() -> None:
    written = [text for text in hostile.FORMS if not hostile.check(text)]
    assert written == list(hostile.FORMS)
    assert len(hostile.queries()) > 300


@pytest.mark.parametrize("seeds", PARTS, ids=str)
def test_the_text_has_it_in_quotes_or_not_at_all(seeds: range, folder: hostile.Folder) -> None:
    for seed in seeds:
        text = hostile.mutated(seed, folder)
        assert hostile.check(text) == "", (seed, text)


@pytest.mark.parametrize(
    "seeds", [range(10), pytest.param(range(10, 200), marks=pytest.mark.slow)], ids=str
)
def test_tables_and_streams_that_run_it(seeds: range, folder: hostile.Folder) -> None:
    for seed in seeds:
        text = hostile.mutated(seed, folder)
        assert hostile.run(text, folder) == "", (seed, text)


def test_explain(
    folder: hostile.Folder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    pq.write_table(hostile.TABLE, tmp_path / "a.parquet")
    text = (
        f"SELECT s, timestampadd(`DAYS(0) AS x, content FROM read_text('{folder.canary}') --`, 1, "
        "t) AS x FROM a ORDER BY s"
    )
    table = f"a={tmp_path / 'a.parquet'}"
    monkeypatch.setattr(sys, "argv", ["penstock", "explain", text, "--table", table])
    assert _status() == 2
    assert "timestampadd takes one of" in capfd.readouterr().err
    assert folder.is_as_before()


def test_one_module_opens_databases() -> None:
    imports = re.compile(r"^\s*(import|from) duckdb\b", re.MULTILINE)
    importing = {module for module, file in MODULES.items() if imports.search(file.read_text())}
    assert importing == {"penstock.host.relational.engine"}
