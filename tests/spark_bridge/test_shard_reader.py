"""Rows of both sides in any order, as a task without a shuffle gets them."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from penstock.errors import FileError
from penstock.spark_bridge.batch.reader import STREAMED, held_first


def batches(*parts: str) -> list[pa.RecordBatch]:
    """A batch of each text; "h" is a held row, "s" a streamed one, and all are numbered."""
    made, number = [], 0
    for part in parts:
        streamed = pa.array([one == "s" for one in part], pa.bool_())
        numbers = pa.array(range(number, number + len(part)), pa.int64())
        made.append(pa.RecordBatch.from_arrays([streamed, numbers], [STREAMED, "n"]))
        number += len(part)
    return made


@settings(deadline=None)
@given(parts=st.lists(st.text("hs", max_size=6), max_size=6), most=st.integers(0, 12))
def test_held_rows_come_first_and_none_is_lost(parts, most):
    rows = [(one == "s", at) for at, one in enumerate("".join(parts))]
    with ExitStack() as kept:
        found = [
            row
            for batch in held_first(iter(batches(*parts)), most, kept)
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        ]
    assert found == sorted(rows)


@pytest.fixture
def scratch(tmp_path, monkeypatch) -> Path:
    """Where temporary files are."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_what_waits_on_disk_is_removed(scratch):
    with ExitStack() as kept:
        found = held_first(iter(batches("ss", "ss", "hs")), 1, kept)
        assert next(found).column("n").to_pylist() == [4]
        assert list(scratch.rglob("*")), "it waits on disk"
    assert not list(scratch.rglob("*"))


def test_a_disk_that_takes_nothing_is_an_error(scratch):
    scratch.rmdir()
    with ExitStack() as kept, pytest.raises(FileError, match="cannot write"):
        list(held_first(iter(batches("ss", "ss")), 1, kept))
