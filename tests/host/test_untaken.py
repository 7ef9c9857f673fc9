"""Rows that the end of a ``with`` block would drop are warned of, in every kind of stream."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.errors import UntakenRowsWarning
from penstock.host.relation import RelationOptions, build

ROWS = pa.table({"k": [1, 2], "t": [10, 20]})
JOIN = "SELECT a.k FROM a JOIN b ON a.k = b.k AND b.t BETWEEN a.t - 5 AND a.t + 5"
GROUPS = "SELECT t, count(*) AS n FROM a GROUP BY t"
BOTH, ONE = {"a": ROWS.schema, "b": ROWS.schema}, {"a": ROWS.schema}


def _lookup(folder: Path) -> Any:
    build(ROWS, str(folder), RelationOptions(key=("k",))).close()
    text = "SELECT a.t FROM a JOIN r ON a.k = r.k"
    return penstock.stream(text, {**ONE, "r": penstock.relation(folder)})


KINDS: dict[str, Callable[[Path], Any]] = {
    "a join": lambda _: penstock.stream(JOIN, BOTH, time={"a": "t", "b": "t"}),
    "groups": lambda _: penstock.stream(GROUPS, ONE, time={"a": "t"}),
    "a lookup": _lookup,
    "parts": lambda _: penstock.stream(
        JOIN.replace("a.k FROM", "upper(CAST(a.k AS STRING)) AS k FROM"),
        BOTH,
        time={"a": "t", "b": "t"},
    ),
    "workers": lambda _: penstock.stream(GROUPS, ONE, time={"a": "t"}, workers=1),
}


@pytest.mark.parametrize("name", KINDS)
def test_rows_that_nobody_took(name, tmp_path):
    def used(close: bool, fail: bool = False) -> None:
        with KINDS[name](tmp_path / f"{close}{fail}") as stream:
            for source in "ab" if name in ("a join", "parts") else "a":
                stream.push(source, ROWS)
            if fail:
                raise KeyError
            if close:
                assert stream.close().num_rows == 2

    with pytest.warns(UntakenRowsWarning, match=r"2 rows .* end the block with rest = stream.cl"):
        used(close=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UntakenRowsWarning)
        used(close=True)
        with pytest.raises(KeyError):
            used(close=False, fail=True)
