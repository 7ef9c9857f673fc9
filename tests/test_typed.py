"""Type checkers of programs that use an installed Penstock see its annotations."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import numpy
import pyarrow
import pytest

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_S = 240

#: Lines that end in a mark are wrong, by the rule of pyright that the mark names.
PROGRAM = """\
import pyarrow as pa

import penstock
from penstock import spark_bridge
from penstock.errors import PenstockError, QueryError
from penstock.errors import Iterator  # reportPrivateImportUsage
from penstock.host.device.base import Device
from penstock.spark_bridge.java import ensure_java

table = pa.table({"id": [1], "t": [1]})
time = {"a": "t", "b": "t"}
penstock.sql("SELECT a.id FROM a JOIN b ON a.id < b.id", {"a": table, "b": table}, time=time)
penstock.sql(1, {"a": table})  # reportArgumentType
penstock.sql("SELECT", {"a": table}, lane=3)  # reportCallIssue
stream = penstock.stream("SELECT", {"a": table.schema}, flow=penstock.Flow(latency_s=0.25))
stream.nothing()  # reportAttributeAccessIssue
stream.push("a", table, 5)  # reportCallIssue
ensure_java().is_dir()
spark_bridge.sql(1, "SELECT", {})  # reportArgumentType
error: type[PenstockError] = QueryError
def of(device: Device) -> str:
    return device.nothing  # reportAttributeAccessIssue
"""

#: A line of a document that imports something of ours.
_SHOWN = re.compile(r"^(?:from penstock[\w.]* import [\w, ]+|import penstock)$", re.M)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Python of an environment with what a wheel has, and with what is installed here."""
    setuptools = pytest.importorskip("setuptools", reason="only builds need it")
    folder = tmp_path_factory.mktemp("typed")
    venv.create(folder / "venv")
    [site] = (folder / "venv" / "lib").glob("python*/site-packages")
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    with pytest.MonkeyPatch.context() as patch:
        packages: dict[str, list[str]] = {}
        patch.setattr(setuptools, "setup", packages.update)
        patch.chdir(ROOT)
        runpy.run_path("setup.py")
        # What `pip wheel` does, without pip's download of the builder.
        built = setuptools.Distribution(
            {
                "script_name": "setup.py",
                "packages": packages["packages"],
                "package_dir": config["tool"]["setuptools"]["package-dir"],
                "package_data": config["tool"]["setuptools"]["package-data"],
            }
        )
        command = built.get_command_obj("build_py")
        command.build_lib = str(site)
        command.ensure_finalized()
        command.run()
    others = {str(Path(one.__file__ or "").parents[1]) for one in (numpy, pyarrow)}
    (site / "others.pth").write_text("\n".join(others) + "\n")
    return folder / "venv" / "bin" / "python"


def test_an_installed_penstock_says_that_it_is_typed(installed):
    ask = "import penstock; from importlib.resources import files; print(files(penstock))"
    done = subprocess.run(
        [installed, "-I", "-c", ask], capture_output=True, text=True, timeout=TIMEOUT_S, check=True
    )
    package = Path(done.stdout.strip())
    assert package.is_relative_to(installed.parents[1])
    assert (package / "py.typed").is_file()
    # The marker counts for packages below, wherever they are in a checkout.
    assert (package / "spark_bridge" / "__init__.py").is_file()
    assert (package / "host" / "__init__.py").is_file()


def test_pyright_checks_a_program_against_it(installed, tmp_path):
    pytest.importorskip("pyright", reason="needs pip install 'penstock[dev]'")
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = {line for page in pages for line in _SHOWN.findall(page.read_text(encoding="utf-8"))}
    assert len(shown) > 10
    # What documents import is meant for users: none of it may be private to a type checker.
    (tmp_path / "program.py").write_text("\n".join([PROGRAM, *sorted(shown)]))
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", installed, "program.py"],
        cwd=tmp_path,
        # Else it would find the checkout.
        env={name: text for name, text in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    found = [
        (one["range"]["start"]["line"], one.get("rule"), one["message"])
        for one in json.loads(done.stdout)["generalDiagnostics"]
    ]
    lines = PROGRAM.splitlines()
    wanted = [(k, line.partition("  # ")[2]) for k, line in enumerate(lines) if "  # " in line]
    assert sorted({(line, rule) for line, rule, _ in found}) == wanted, found
