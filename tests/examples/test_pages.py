"""The examples' pages: their code is the examples', and what they show is what these print."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.spark_bridge.kit.apps import light_java

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "gallery"

#: For Spark to start and an example to run; on an idle machine it is less than one.
_TIMEOUT_S = 580


def module(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


PAGES = module("pages", ROOT / "examples" / "pages.py")
NAMES = PAGES.NAMES


def ran(*args: str, out: Path) -> str:
    pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")
    pytest.importorskip("matplotlib", reason="needs pip install 'penstock[demo]'")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(ROOT / "examples" / args[0]), *args[1:],
         "--out", str(out)],
        env={**os.environ, "PYTHONPATH": "", **light_java()},
        cwd=out,
        timeout=_TIMEOUT_S,
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    return done.stdout


@pytest.mark.parametrize("name", [*NAMES, *PAGES.MEASURED])
def test_a_page_has_its_examples_text_and_code(name):
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    blocks = [block.split("\n```")[0] for block in text.split("```python\n")[1:]]
    # What is in neither kind of cell would be missing on the page.
    script = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    assert script.startswith("# %%")
    assert len(script.splitlines()) <= 120
    printed = [""] * sum(not is_text for is_text, _ in PAGES.cells(name))
    wanted = PAGES.page(name, printed)
    assert blocks == [block.split("\n```")[0] for block in wanted.split("```python\n")[1:]]
    for is_text, body in PAGES.cells(name):
        if is_text:
            assert body in text
    assert PAGES.pictures(name)
    for picture in PAGES.pictures(name):
        assert f"]({picture}.png)" in text
        drawn = (DOCS / f"{picture}.png").read_bytes()
        assert drawn.startswith(b"\x89PNG")
        assert len(drawn) < 300_000
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    assert f"]({name}.md)" in index


def test_generated_streams_are_the_same_each_time():
    generated = module("generated", ROOT / "examples" / "generated.py")
    for name in NAMES:
        first, second = (getattr(generated, name)() for _ in range(2))
        assert all(first[stream].equals(second[stream]) for stream in first)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
def test_a_page_shows_what_its_example_gives(name, tmp_path):
    ran("pages.py", "--check", name, out=tmp_path)
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(
    not os.environ.get("PENSTOCK_DATA"), reason="needs the environment variable PENSTOCK_DATA"
)
@pytest.mark.parametrize("name", [name for name in NAMES if name not in PAGES.GENERATED])
def test_on_recorded_streams(name, tmp_path):
    printed = ran(f"{name}.py", out=tmp_path)
    assert "recorded rows" in printed
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000


@pytest.mark.parametrize("name", PAGES.NOTEBOOKS)
def test_a_notebook_has_its_examples_cells(name):
    file = ROOT / "examples" / f"{name}.ipynb"
    assert file.read_text(encoding="utf-8") == PAGES.notebook(name)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["two_files", pytest.param("lightning", marks=pytest.mark.slow)])
def test_a_notebook_runs_and_prints_what_its_page_shows(name, tmp_path, monkeypatch):
    if name == "lightning":
        pytest.importorskip("pyspark", reason="needs pip install 'penstock[spark]'")
        pytest.importorskip("deltalake", reason="needs pip install deltalake")
    else:
        pytest.importorskip("bokeh", reason="needs pip install 'penstock[page]'")
    client = pytest.importorskip("nbclient", reason="needs pip install 'penstock[dev]'")
    nbformat = pytest.importorskip("nbformat", reason="needs pip install 'penstock[dev]'")
    pytest.importorskip("ipykernel", reason="needs pip install 'penstock[dev]'")
    for variable, text in light_java().items():
        monkeypatch.setenv(variable, text)
    # Jupyter begins in the folder of the notebook, where its helpers are. Here nothing is to be
    # written into that one.
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "examples"))
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")
    monkeypatch.delenv("PENSTOCK_DATA", raising=False)
    book = nbformat.read(ROOT / "examples" / f"{name}.ipynb", as_version=4)
    nbformat.validate(book)
    place = {"metadata": {"path": str(tmp_path)}}
    client.NotebookClient(
        book, timeout=_TIMEOUT_S, kernel_name="python3", resources=place
    ).execute()
    outputs = [cell.outputs for cell in book.cells if cell.cell_type == "code"]
    printed = [
        "".join(one.text for one in of if one.output_type == "stream" and one.name == "stdout")
        for of in outputs
    ]
    assert (DOCS / f"{name}.md").read_text(encoding="utf-8") == PAGES.page(name, printed)
    shown = [one for of in outputs for one in of if "image/png" in one.get("data", {})]
    assert len(shown) == 1
    drawn = [
        one for of in outputs for one in of if "<svg" in one.get("data", {}).get("text/html", "")
    ]
    assert bool(drawn) == (name == "two_files")
