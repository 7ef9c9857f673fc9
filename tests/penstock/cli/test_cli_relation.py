"""``penstock relation``: what it prints, and one line for every mistake."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.host.relation import open_relation


@pytest.fixture
def built(cli, tables) -> Path:
    out = tables / "a.rel"
    shown, err, status = cli("relation", "build", tables / "a.parquet", "--key", "x", "--out", out)
    assert (err, status) == ("", 0)
    assert shown == f"{out}: version 1, 6 rows, 1 of them without a key, 2 pages, 1.0 KiB\n"
    return out


def test_info_shows_what_there_is(cli, built):
    shown, _, status = cli("relation", "info", built)
    assert status == 0
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert f"relation {built}" in lines
    assert "rows 6" in lines
    assert "NULL keys 1" in lines
    assert "pages 2 of 4 KiB, by the hash of x" in lines
    assert "versions 1, from 1 on" in lines
    assert "x int32 key" in lines
    assert "updates" not in shown


def test_updates_make_versions(cli, built, tables):
    new = pa.table({"x": pa.array([5, 8], pa.int32())})
    whole = pq.read_table(tables / "a.parquet")
    pq.write_table(new, tables / "gone.parquet")
    pq.write_table(whole.slice(0, 2), tables / "more.parquet")
    shown, _, _ = cli("relation", "update", built, "--deletes", tables / "gone.parquet")
    assert shown.startswith(f"{built}: version 2, 5 rows, ")
    assert "bytes), not merged yet" in cli("relation", "info", built)[0]  # not merged yet
    shown, _, _ = cli("relation", "update", built, "--append", tables / "more.parquet")
    assert shown.startswith(f"{built}: version 4, 7 rows, ")  # 3, and 4 with both updates merged
    assert "not merged" not in cli("relation", "info", built)[0]
    shown, _, _ = cli(
        "relation", "update", built, "--upserts", tables / "more.parquet", "--compact"
    )
    assert shown.startswith(f"{built}: version 6, 6 rows, ")
    pq.write_table(new.slice(1), tables / "none.parquet")
    shown, _, _ = cli("relation", "update", built, "--deletes", tables / "none.parquet")
    assert shown == "nothing changes: version 6 has it so already\n"
    shown, _, _ = cli("relation", "vacuum", built)
    assert shown == "removed 0 versions, 0 files, 0 bytes; kept 6 versions\n"
    shown, _, _ = cli("relation", "vacuum", built, "--keep-for", "0s")
    assert shown.startswith("removed 5 versions, ")
    assert shown.endswith("; kept 1 version\n")
    shown, _, status = cli("relation", "check", built)
    assert shown == f"{built}: all is as it was written: 6 rows, 2 pages, 1 version\n"
    assert status == 0


def test_clustered(cli, tables):
    out = tables / "b.rel"
    _, _, status = cli("relation", "build", tables / "b.parquet", "--cluster", "x,f", "--out", out)
    assert status == 0
    shown, _, _ = cli("relation", "info", out)
    assert "clustered by x, f" in shown
    assert "NULL keys" not in shown
    assert open_relation(out).cluster == ("x", "f")


def test_check_lists_what_is_damaged(cli, built):
    (data,) = (built / "data").glob("*.pages")
    content = bytearray(data.read_bytes())
    content[100] ^= 1
    data.write_bytes(content)
    shown, err, status = cli("relation", "check", built)
    assert status == 6
    assert shown.startswith(f"{data}: page 0 is not what was written: its checksum differs; ")
    assert err == (
        f"penstock: {built} is damaged: 1 problem; restore it from a backup, or build it anew\n"
    )


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["build", "a.parquet", "--out", "new"], 2, "needs a key, by which rows are found"),
        (["build", "a.parquet", "--key", "y", "--out", "new"], 3, "has no column y, which key"),
        (["build", "a.parquet", "--key", "x,x", "--out", "new"], 2, "key names x twice"),
        (["build", "a.parquet", "--cluster", "name", "--out", "new"], 3, "name is string, by"),
        (["build", "c.parquet", "--key", "x", "--out", "new"], 6, "there is no file .*c.parquet"),
        (["build", "a.parquet", "--key", "x", "--out", "a.rel"], 6, "a.rel exists; update it"),
        (["build", "a.parquet", "--key", "x", "--out", "no/new"], 6, "there is no folder .*no"),
        (
            ["build", "a.parquet", "--key", "x", "--out", "new", "--memory", "much"],
            2,
            "--memory takes a size such as 256MB, not 'much'",
        ),
        (["update", "a.rel"], 2, "give --upserts, --deletes, --append or --compact"),
        (["update", "a.rel", "--append", "b.parquet", "--deletes", "b.parquet"], 2, "of its own"),
        (["update", "a.rel", "--upserts", "a.parquet"], 4, "a row has NULL in its key"),
        (["info", "new"], 6, "there is no relation at .*new: relation.json is missing; build one"),
        (["check", "new"], 6, "there is no relation at"),
        (["vacuum", "a.rel", "--keep-for", "3"], 2, "--keep-for takes a duration with its unit"),
    ],
)
def test_mistakes_are_one_line(
    cli, built, tables, monkeypatch, tmp_path, arguments, status, message
):
    monkeypatch.chdir(tables)
    shown, err, found = cli("relation", *arguments)
    assert (shown, found) == ("", status), err
    assert err.count("\n") == 1
    assert re.search(message, err), err
    assert not (tables / "new").exists()
    assert [path.name for path in tables.iterdir() if path.name.startswith(".")] == []
