"""``penstock explain`` and ``penstock devices``: what the compiler made of a query."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


def arguments(folder: Path, condition: str, *more: str) -> list[str | Path]:
    query = (
        f"SELECT a.id AS a_id, b.id AS b_id FROM a JOIN b ON {condition} "
        "AND b.t BETWEEN a.t - 10 AND a.t + 20"
    )
    tables = [
        item for name in ("a", "b") for item in ("--table", f"{name}={folder / name}.parquet")
    ]
    return ["explain", query, *tables, "--time", "a=t", "--time", "b=t", *more]


def test_band_form(cli, tables):
    out, _, status = cli(*arguments(tables, "abs(a.x - b.x) < 3 AND a.name = b.name"))
    assert status == 0
    assert "-10 <= right.time - left.time <= 20" in out
    assert "band, 2 tests, codes of 16 bits" in out
    assert "t0 and t1" in out
    assert "truth table  0x8" in out


PAIRS = "SELECT a.x AS i, b.x AS j FROM a JOIN b ON"


def units_of(cli, folder: Path, select: str, reach: int) -> list[str]:
    """What is told of the units, for tables of 150,000 keys of 31 bits."""
    rng, rows = np.random.default_rng(1), 150_000
    options = []
    for name in "ab":
        columns = {"t": np.arange(rows), "x": np.sort(rng.integers(0, 1 << 31, rows))}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
        options += ["--table", f"{name}={folder / name}.parquet", "--time", f"{name}=t"]
    condition = f"b.t BETWEEN a.t - 500 AND a.t + 500 AND abs(a.x - b.x) <= {reach}"
    out, err, status = cli("explain", f"{select} {condition}", *options)
    assert status == 0, err
    return [line[12:].strip() for line in out.splitlines() if line.startswith("units ")]


def test_units_that_hold_every_code(cli, tables):
    out, _, _ = cli(*arguments(tables, "abs(a.x - b.x) < 3"))
    assert "units        16 bits, which hold every code" in out


def test_units_by_the_false_pairs_that_they_are_expected_to_find(cli, tmp_path):
    (line,) = units_of(cli, tmp_path, PAIRS, 1 << 20)
    assert re.fullmatch(r"16 bits, t0 by rank: \S+ % .* expected to be false", line)
    first, second = units_of(cli, tmp_path, PAIRS, 100)
    assert re.fullmatch(r"16 bits, t0 by rank: \S+ % .* false, too many", first)
    assert re.fullmatch(r"24 bits, t0 by rank: 0 % .* false", second)


def test_units_of_a_fold(cli, tmp_path):
    semi = "SELECT a.t FROM a SEMI JOIN b ON"
    assert units_of(cli, tmp_path, semi, 100) == [
        "32 bits: narrower ones cannot fold, which needs exact codes"
    ]


def test_general_form_and_its_stages(cli, tables):
    pytest.importorskip("amaranth", reason="needs the rtl extra")
    out, _, status = cli(*arguments(tables, "(a.x - b.x) * (a.x - b.x) < 9"))
    assert status == 0
    assert "general, because" in out
    assert "stages in hardware" in out
    assert "stage 0" in out
    assert "amaranth     runs it" in out


def test_stages_of_a_folded_value(cli, tables):
    pytest.importorskip("amaranth", reason="needs the rtl extra")
    query = (
        "SELECT a.id, {}, count(*) AS n FROM a JOIN b ON a.x * b.x < 90 "
        "AND b.t BETWEEN a.t - 10 AND a.t + 20 GROUP BY a.id"
    )
    _, _, *options = arguments(tables, "")
    shown = [
        cli("explain", query.format(value), *options)
        for value in ("sum((a.x - b.x) * (a.x - b.x)) AS e", "1 AS one")
    ]
    assert [status for _, _, status in shown] == [0, 0]
    folded, counted = (out.splitlines() for out, _, _ in shown)
    for result in ("the value", "the predicate"):
        assert sum(line.endswith(f", {result}") for line in folded) == 1
        assert not any(line.endswith(f", {result}") for line in counted)
    assert any(line.startswith("pipeline") for line in counted)


def test_why_a_device_cannot(cli, tables):
    pytest.importorskip("amaranth", reason="needs the rtl extra")
    out, _, status = cli(*arguments(tables, "a.f * b.f <> 0.5"))
    assert status == 0
    assert "amaranth     no: " in out
    assert "cpu          runs it" in out
    out, _, status = cli(*arguments(tables, "abs(a.f - b.f) < 0.5"))
    assert "amaranth     finds the pairs that the search keys admit; the host tests these" in out


def test_band_form_switched_off(cli, tables):
    out, _, status = cli(*arguments(tables, "abs(a.x - b.x) < 3", "--no-band"))
    assert status == 0
    assert "general, because band form is switched off" in out


def test_devices(cli):
    out, _, status = cli("devices")
    assert status == 0
    assert "cpu" in out
    assert "amaranth" in out


def test_version_and_help(cli):
    out, _, status = cli("--version")
    assert status == 0
    assert out.startswith("penstock 0.")
    out, _, status = cli("--help")
    assert status == 0
    for command in ("sql", "explain", "devices", "demo"):
        assert command in out


@pytest.mark.parametrize(
    ("condition", "options", "found"),
    [
        ("abs(a.x - b.x) < 3", ["--rows", "5"], "cpu          runs it"),
        ("abs(a.x - b.x) < 3", ["--within", "5"], "this query has a time window"),
    ],
)
def test_window_operator(cli, tables, condition, options, found):
    query = f"SELECT a.id AS i, b.id AS j FROM a JOIN b ON {condition}"
    files = [f"--table={name}={tables / name}.parquet" for name in "ab"]
    out, err, status = cli("explain", query, *files, "--time=a=t", "--time=b=t", *options)
    assert status == 0, err
    assert found in out.partition("window operator (--operator window)")[2]


def test_groups_and_when_those_of_a_stream_leave(cli, tables):
    _, _, *options = arguments(tables, "")
    on = "FROM a JOIN b ON b.t BETWEEN a.t - 10 AND a.t + 20 GROUP BY"
    by_both, _, _ = cli("explain", f"SELECT count(*) AS n {on} window(a.t, 60), b.x", *options)
    assert "groups       by window(a.t, 60), b.x; the pairs are grouped on the host" in by_both
    assert "leave when no later pair can have their window(a.t, 60)" in by_both
    by_one, _, _ = cli("explain", f"SELECT count(*) AS n {on} b.x", *options)
    assert "by b.x; each row of b is folded over its matches on the device" in by_one
    assert "refused: a stream never knows that these groups are complete" in by_one


def test_orders_and_what_happened(cli, tmp_path):
    rows, names = 5_000, ("a", "b")
    for name in names:
        keys = np.arange(rows) % 50
        one = pa.table({"id": np.arange(rows), "k": keys, "x": np.arange(rows) // 50})
        pq.write_table(one, tmp_path / f"{name}.parquet")
    files = [f"--table={name}={tmp_path / name}.parquet" for name in names]
    query = "SELECT a.id AS i FROM a JOIN b ON abs(a.k - b.k) < 1 AND abs(a.x - b.x) <= 1"
    out, err, status = cli("explain", "--analyze", query, *files)
    assert status == 0, err
    assert re.search(r"^  all pairs +5,000 +0.0015 s$", out, re.M)
    assert re.search(r"^  cells .*\(chosen\)$", out, re.M)
    after = out.partition("what happened")[2]
    assert re.search(r"^rows +14,900 in ", after, re.M)  # 50 keys, 100 + 2 * 99 pairs each
    assert re.search(r"^order +cells for 5,000 rows$", after, re.M)
    assert re.search(r"^order +[\d,]+ tests a row, [\d,]+ expected$", after, re.M)


@pytest.mark.parametrize(
    ("condition", "engine"),
    [
        ("a.k = b.k", "DuckDB: a join by equal values alone"),
        (
            "a.id = b.id AND a.x < b.x",
            "DuckDB: about 4,500 pairs have equal values; Penstock's above",
        ),
        ("a.one = b.one AND a.x < b.x", "Penstock: about 20,250,000 pairs have equal values; "),
        ("a.x < b.x", "Penstock"),
    ],
)
def test_why_an_engine_runs_a_join(cli, tmp_path, condition, engine):
    rows = np.arange(4_500)
    one = pa.table({"id": rows, "k": rows % 50, "one": rows * 0, "x": rows % 3})
    pq.write_table(one, tmp_path / "one.parquet")
    files = [f"--table={name}={tmp_path / 'one.parquet'}" for name in "ab"]
    query = f"SELECT count(*) AS n FROM a JOIN b ON {condition}"
    out, err, status = cli("explain", query, *files)
    assert status == 0, err
    assert re.search(rf"^engine +{re.escape(engine)}", out, re.M), out
