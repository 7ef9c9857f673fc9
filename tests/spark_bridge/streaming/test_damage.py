"""Damaged files of a checkpoint: the exact rows or an error that says what to do; `make damage`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")

from tests.spark_bridge.kit.damage import BEFORE, Checkpoints, Damage, settings


@pytest.fixture(scope="module")
def checkpoints(spark, tmp_path_factory):
    """Checkpoints of a join, made once."""
    with settings(spark):
        yield Checkpoints(spark, tmp_path_factory.mktemp("join"))


def window(checkpoint: Path) -> list[Path]:
    """The files of one side's rows that the next batch reads, all of one size or not."""
    record = checkpoint / "penstock" / "batches" / f"{BEFORE - 1}.json"
    new = json.loads(record.read_bytes())["values"]
    files = [one for kind in ("old", "new") for one in new[kind]["r"]]
    return [checkpoint / "penstock" / "rows" / one["name"] for one in files]


def swapped(checkpoint: Path) -> Damage:
    first, last = window(checkpoint)[-2:]
    content = first.read_bytes()
    first.write_bytes(last.read_bytes())
    last.write_bytes(content)
    return Damage("swapped rows", is_ours=True)


def edited(checkpoint: Path) -> Damage:
    for path in window(checkpoint):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    return Damage("edited rows", is_ours=True)


def copied(checkpoint: Path) -> Damage:
    batches = checkpoint / "penstock" / "batches"
    shutil.copy(batches / f"{BEFORE - 2}.json", batches / f"{BEFORE - 1}.json")
    return Damage("a copied record", is_ours=True)


@pytest.mark.parametrize(
    "strike", [swapped, *(pytest.param(one, marks=pytest.mark.slow) for one in (edited, copied))]
)
@pytest.mark.timeout(300)
def test_what_gave_wrong_rows_or_hung(checkpoints, strike):
    trial = checkpoints.gone_on("whole", strike)
    assert trial.outcome == "refused", trial
    assert "restore the folder from a backup" in trial.said


def forgotten(checkpoint: Path) -> Damage:
    """Spark takes a file for new whose name it has noted otherwise."""
    path = checkpoint / "sources" / "0" / str(BEFORE - 1)
    content = path.read_bytes()
    changed = content.replace(f"{BEFORE - 1:04}.parquet".encode(), b"0999.parquet")
    assert changed != content
    path.write_bytes(changed)
    return Damage("another name of a file", is_ours=False)


def lost(checkpoint: Path) -> Damage:
    (checkpoint / "sources" / "0" / str(BEFORE - 1)).unlink()
    return Damage("a lost log", is_ours=False)


@pytest.mark.parametrize("strike", [forgotten, lost])
@pytest.mark.timeout(300)
def test_what_spark_believes(checkpoints, strike):
    trial = checkpoints.gone_on("whole", strike)
    assert trial.outcome == "refused", trial
    assert trial.said.startswith("FileError: "), trial
    assert "restore the folder from a backup" in trial.said


@pytest.mark.timeout(600)
def test_nothing_done_gives_the_rows(checkpoints):
    """Or every trial could be refused for another reason."""
    for name in ("whole", "torn"):
        trial = checkpoints.gone_on(name, lambda _: Damage("nothing", is_ours=True))
        assert trial.outcome == "exact", trial


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(6), range(6, 156)], ids=["few", "many"])
@pytest.mark.timeout(3600)
def test_random_damage(checkpoints, seeds):
    trials = [checkpoints.tried(seed) for seed in seeds]
    assert not [trial for trial in trials if not trial.is_good]
    assert {trial.outcome for trial in trials} == {"exact", "refused"}
