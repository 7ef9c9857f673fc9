import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from penstock.constraints import templates
from penstock.constraints.templates import fill

FOLDER = Path(templates.__file__).parent
FILES = [file for file in FOLDER.iterdir() if file.suffix not in (".py", ".pyc") and file.is_file()]


def test_each_placeholder_has_a_value_and_each_value_a_placeholder():
    assert "100 MHz" in fill("board.xdc", clock_mhz=100)
    with pytest.raises(ValueError, match=r"board.xdc and the values differ in clock_mhz"):
        fill("board.xdc")
    with pytest.raises(ValueError, match=r"board.xdc and the values differ in part"):
        fill("board.xdc", clock_mhz=100, part="xc7z020")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_templates_have_placeholders_in_one_form(file):
    """Braces keep a placeholder apart from what follows it; the delimiter is for nothing else."""
    text = file.read_text(encoding="utf-8")
    assert re.findall("@.", text) == ["@{"] * text.count("@")
    assert all(len(line) <= 100 for line in text.splitlines())
    assert text.endswith("\n")


def test_templates_are_installed():
    root = Path(__file__).resolve().parent.parent.parent
    config = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = config["tool"]["setuptools"]["package-data"]["penstock.constraints.templates"]
    assert FILES
    assert [f.name for f in FILES if not any(fnmatch(f.name, one) for one in patterns)] == []
