"""Queries, and what Penstock makes of each with the release of sqlglot that Python finds."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import sqlglot

from penstock.errors import PenstockError
from penstock.query.parse import canonical, parse
from tests.penstock.kit.duckdb_text import text_and_calls
from tests.penstock.test_nodes import SAMPLES, SCHEMAS, engine

ROOT = Path(__file__).parents[3]


def plans(every: int) -> dict[str, str]:
    """Plans and texts by query, of one query in ``every``."""
    found = {}
    for text in SAMPLES[::every]:
        found[f"engine: {text}"] = _said(lambda text=text: str(engine(parse(text))))
        found[f"DuckDB: {text}"] = _said(
            lambda text=text: str(text_and_calls(parse(text), SCHEMAS))
        )
    for text in [*_files()][::every]:
        found[text] = _said(lambda text=text: canonical(text))
    return found


def _files() -> Iterator[str]:
    for file in sorted((ROOT / "tests/sql").glob("*.sql")):
        yield file.read_text(encoding="utf-8")
    for page in sorted((ROOT / "docs").rglob("*.md")):
        yield from re.findall(r"```sql\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def _said(do: Callable[[], str]) -> str:
    try:
        return do()
    except PenstockError:
        return "refused"


if __name__ == "__main__":
    json.dump([sqlglot.__version__, plans(int(sys.argv[1]))], sys.stdout)
