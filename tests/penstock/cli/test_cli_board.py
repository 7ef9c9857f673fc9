"""``penstock board``: packages, scripts and refusals. What needs PYNQ is in tests/host."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from penstock.host.device.programs import program_from
from penstock.host.devices.board.package import Package
from penstock.program import GeneralProgram
from tests.hw.kit import needs_yosys

without_pynq = pytest.mark.skipif(find_spec("pynq") is not None, reason="pynq is installed")
SMALL = ("--units", "4", "--band", "1")
BUILD = ["build", "--board", "zcu104", "-o", "x", "--scripts-only"]
WINDOW = ["package", "--board", "zcu104", "--virtual", "-o", "x", "--operator", "window"]
WINDOW += ["--rows-depth", "16", "--banks", "2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--units", "4"], "give --virtual BOARD, or a command"),
        (["--virtual", "u280"], "u280 has no remote protocol; virtual boards are pynq-z2, zcu104"),
        (["--virtual", "zcu999"], "there is no board named 'zcu999'"),
        (["package", "--board", "zcu104", "-o", "x"], "give either --virtual, or the --overlay"),
        ([*WINDOW, "--clock-mhz", "100"], "--clock-mhz is for an --overlay; a virtual board has"),
        (["build", "--board", "zcu104", "-o", "x", *SMALL], "vivado is not on the path"),
        ([*BUILD, "--kernels", "9", *SMALL], "zcu104 takes 1 to 8 kernels, not 9"),
        ([*BUILD, "--kernels", "0", *SMALL], "zcu104 takes 1 to 8 kernels, not 0"),
        ([*BUILD, "--clock-mhz", "201", *SMALL], "zcu104 are built for 25 to 200 MHz, not 201"),
        ([*WINDOW, "--band", "0"], "drives window-join operators with band tests"),
        ([*WINDOW, "--pipelines", "2"], "a window kernel has --banks"),
        ([*WINDOW, "--operator", "range"], "--rows-depth and --banks are for --operator window"),
    ],
)
def test_refuses(cli, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    _, err, status = cli("board", *arguments)
    assert status != 0
    assert message in " ".join(err.split())
    assert list(tmp_path.iterdir()) == []


@without_pynq
@pytest.mark.parametrize(
    "arguments",
    [
        ["board", "--virtual", "zcu104"],
        ["board", "selftest", "--address", "127.0.0.1:1"],
        ["devices"],
    ],
)
def test_says_how_pynq_is_installed(cli, arguments):
    out, err, _ = cli(*arguments)
    assert "pip install '.[board" in " ".join((out + err).split())


@needs_yosys
def test_package_of_a_band_kernel(cli, tmp_path):
    out, err, status = cli(
        "board", "package", "--board", "zcu104", "--virtual", "-o", tmp_path, *SMALL
    )
    assert status == 0, err
    assert "1 x 4 units, 1 band tests" in " ".join(out.split())
    package = Package.read(tmp_path)
    assert package.clock_mhz == 187.5
    assert package.overlay in out
    assert {file.name for file in tmp_path.iterdir()} == {"package.json", *package.files}


@needs_yosys
def test_package_of_a_window_operator(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out, err, status = cli("board", *WINDOW, "--band", "1", "--kernels", "2")
    assert status == 0, err
    assert "2 x window join of up to 16 ROWS, 2 banks, 1 band tests" in " ".join(out.split())
    package = Package.read(tmp_path / "x")
    assert package.is_window
    assert package.instances == ["penstock_window_kernel_1", "penstock_window_kernel_2"]
    assert package.evaluations_per_cycle == 4


@needs_yosys
@pytest.mark.usefixtures("no_verilog_in_short")
def test_package_of_a_query(cli, tables, tmp_path):
    """The package says what is built in."""
    given = [item for n in "ab" for item in ("--table", f"{n}={tables / n}.parquet")]
    sql = "SELECT a.id AS i FROM a JOIN b ON a.x * b.x > 12"
    arguments = ["--sql", sql, *given, "--time", "a=t", "--time", "b=t", "--within", "5"]
    out, err, status = cli(
        "board", "package", "--board", "kv260", "--virtual", "-o", tmp_path / "p", "--units", "4",
        *arguments,
    )  # fmt: skip
    assert status == 0, err
    assert "a built-in predicate" in out
    assert isinstance(program_from(dict(Package.read(tmp_path / "p").program)), GeneralProgram)


@needs_yosys
@pytest.mark.usefixtures("no_verilog_in_short")
@pytest.mark.parametrize(
    ("board", "kernel", "files"),
    [
        ("pynq-z2", SMALL, {"package.tcl", "design.tcl", "board.xdc"}),
        (
            "u280",
            (*WINDOW[-6:], "--band", "1"),
            {"package.tcl", "pblocks.tcl", "link.cfg", "kernel.xml"},
        ),
    ],
)
def test_scripts(cli, board, kernel, files, tmp_path):
    arguments = ("--board", board, "-o", tmp_path, "--scripts-only", "--kernels", "2", *kernel)
    out, err, status = cli("board", "build", *arguments)
    assert status == 0, err
    written = {Path(line).name for line in out.split()}
    assert files <= written
    assert {file.name for file in tmp_path.iterdir()} == written


@needs_yosys
@pytest.mark.usefixtures("no_verilog_in_short")
def test_build(cli, tmp_path, monkeypatch):
    """A build for a lower clock, with a tool that only makes its last file."""
    tools = tmp_path / "bin"
    tools.mkdir()
    tool = tools / "vivado"
    act = "case $1 in -version) echo vivado v2023.2;; *) touch penstock.bit penstock.hwh;; esac"
    tool.write_text(f"#!/bin/sh\n{act}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    out, err, status = cli(
        "board", "build", "--board", "zcu104", "-o", tmp_path / "b", "--kernels", "2",
        "--clock-mhz", "150", *SMALL,
    )  # fmt: skip
    assert status == 0, err
    assert "2 x 4 units, 1 band tests" in " ".join(out.split())
    package = Package.read(tmp_path / "b" / "package")
    assert package.clock_mhz == 150
    assert package.instances == ["penstock_kernel_1", "penstock_kernel_2"]
    assert "FREQMHZ 150" in (tmp_path / "b" / "design.tcl").read_text()
    out, err, status = cli(
        "board", "package", "--board", "zcu104", "-o", tmp_path / "again", "--clock-mhz", "150",
        "--overlay", tmp_path / "b" / "penstock.bit", "--kernels", "2", *SMALL,
    )  # fmt: skip
    assert status == 0, err
    assert Package.read(tmp_path / "again").describe() == package.describe()
