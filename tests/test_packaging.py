"""Facts about the layout that nothing else would notice when they break."""

from __future__ import annotations

import ast
import importlib.util
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = ROOT / "pyproject.toml"
CONFIG = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))
FOLDERS = CONFIG["tool"]["setuptools"]["package-dir"]

#: Layers, and the layers each may import besides itself. ``penstock`` is the language: everything
#: under penstock/ that is not named in FACE.
MAY_IMPORT = {
    "penstock": set(),
    "constraints": {"penstock"},
    "hw": {"penstock", "constraints"},
    "host": {"penstock"},
    "spark_bridge": {"penstock", "host"},
    "sim": {"penstock", "constraints", "hw", "host", "spark_bridge"},
}

#: Modules under penstock/ that a user calls, and what each may import besides the language. They
#: sit on top of the other layers, so nothing below may import them.
FACE = {
    "penstock.cli": {"constraints", "hw", "host", "sim", "spark_bridge"},
    "penstock.api": {"host"},
    "penstock.workers": {"host"},
    "penstock": {"host"},  # the package itself, which passes on what api offers
}

#: Single imports that break the rules above, with the reason: (importing module, imported module).
EXCEPTIONS: dict[tuple[str, str], str] = {}


def modules() -> dict[str, Path]:
    """Every module of the project by its import name."""
    found = {}
    for package, folder in FOLDERS.items():
        for file in (ROOT / folder).rglob("*.py"):
            parts = file.relative_to(ROOT / folder).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            found[".".join((package, *parts))] = file
    return found


MODULES = modules()


def face_of(module: str) -> str | None:
    """Entry of FACE that covers a module; the package ``penstock`` covers itself only."""
    for name in FACE:
        if module == name or (name != "penstock" and module.startswith(f"{name}.")):
            return name
    return None


def layer_of(module: str) -> str:
    """Layer of a module outside FACE."""
    second = module.split(".")[1] if "." in module else ""
    return second if f"penstock.{second}" in FOLDERS else "penstock"


def resolve(module: str, *, package: bool, node: ast.ImportFrom) -> str:
    """Full name of the module that ``from ... import`` names, relative imports included."""
    if not node.level:
        return node.module or ""
    drop = node.level - (1 if package else 0)
    parts = module.split(".")
    base = parts[: len(parts) - drop]
    return ".".join([*base, node.module] if node.module else base)


@cache  # several tests go through all modules
def imports(module: str, source: str, *, package: bool = False) -> frozenset[str]:
    """Modules of the project that a module imports, at the top or inside a function.

    Imports under ``if TYPE_CHECKING`` count: a type is a dependency too.
    """
    named = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = resolve(module, package=package, node=node)
            # "from penstock import host" names a module, "from penstock import errors" too.
            children = {f"{base}.{alias.name}" for alias in node.names}
            modules_named = {child for child in children if child in MODULES}
            named |= modules_named
            if modules_named != children:
                named.add(base)
    return frozenset(name for name in named if name.split(".")[0] == "penstock")


def complaint(module: str, imported: str) -> str | None:
    """Why ``module`` may not import ``imported``; None if it may."""
    if (module, imported) in EXCEPTIONS:
        return None
    own_face, other_face = face_of(module), face_of(imported)
    if other_face is not None:
        if own_face is not None:
            return None
        return f"{module} imports {imported}, which is for users and sits above it"
    layer = layer_of(imported)
    if own_face is not None:
        allowed = FACE[own_face] | {"penstock"}
    else:
        allowed = MAY_IMPORT[layer_of(module)] | {layer_of(module)}
    return None if layer in allowed else f"{module} imports {imported}, a module of {layer}"


def test_dependencies_point_one_way():
    wrong = []
    for module, file in sorted(MODULES.items()):
        source = file.read_text(encoding="utf-8")
        for imported in sorted(imports(module, source, package=file.name == "__init__.py")):
            wrong.append(complaint(module, imported))
    assert [text for text in wrong if text] == []


def test_no_exception_is_out_of_date():
    used = {
        (module, imported)
        for module, file in MODULES.items()
        for imported in imports(
            module, file.read_text(encoding="utf-8"), package=file.name == "__init__.py"
        )
    }
    assert [pair for pair in EXCEPTIONS if pair not in used] == []


@pytest.mark.parametrize(
    ("module", "imported", "allowed"),
    [
        ("penstock.query.parse", "penstock.host.task", False),
        ("penstock.query.parse", "penstock.errors", True),
        ("penstock.query.parse", "penstock", False),
        ("penstock", "penstock.host.device.base", True),
        ("penstock", "penstock.api", True),
        ("penstock", "penstock.sim", False),
        ("penstock.api", "penstock.host", True),
        ("penstock.api", "penstock.spark_bridge", False),
        ("penstock.cli.main", "penstock.sim.workloads", True),
        ("penstock.host.task", "penstock.hw.join", False),
        ("penstock.host.task", "penstock.cli", False),
        ("penstock.hw.join.unit", "penstock.host", False),
        ("penstock.hw.join.unit", "penstock.sim", False),
        ("penstock.sim.device", "penstock.hw", True),
        ("penstock.sim.device", "penstock.spark_bridge", True),
        ("penstock.spark_bridge.join", "penstock.sim", False),
        ("penstock.spark_bridge.join", "penstock.host", True),
    ],
)
def test_the_rules_themselves(module: str, imported: str, allowed: bool):
    assert (complaint(module, imported) is None) == allowed


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import penstock.errors, os", {"penstock.errors"}),
        ("from penstock.errors import UsageError", {"penstock.errors"}),
        ("from penstock import errors", {"penstock.errors"}),
        ("from penstock import errors, connect", {"penstock.errors", "penstock"}),
        ("def f():\n  from penstock import sim", {"penstock.sim"}),
        ("from ..errors import UsageError", {"penstock.errors"}),
        ("from . import other", {"penstock.query"}),
    ],
)
def test_the_scan_itself(source: str, found: set[str]):
    assert imports("penstock.query.parse", source) == found


def test_first_target_of_the_makefile_lists_the_targets():
    lines = (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()
    targets = [m[1] for line in lines if (m := re.match(r"([A-Za-z0-9_$(){}./-]+):(?!=)", line))]
    assert next(t for t in targets if t != ".PHONY") == "help"
    # A target without a ## text would be missing from the list.
    phony = {line.split()[1] for line in lines if line.startswith(".PHONY:")}
    described = {line.split(":")[0] for line in lines if re.match(r"[a-z-]+:.*## \S", line)}
    assert described == phony


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_alone_prints_the_targets():
    done = subprocess.run(
        ["make"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    )
    for target in (
        "setup",
        "run",
        "test",
        "test-full",
        "lint",
        "bench-cpu",
        "bench-hw",
        "bench-window",
        "clean",
    ):
        assert re.search(rf"make {target} +[A-Z]", done.stdout)


def test_every_dependency_says_why():
    text = PYPROJECT.read_text(encoding="utf-8")
    project = CONFIG["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    silent = [
        wanted
        for group in groups
        for wanted in group
        if not re.search(rf'^  "{re.escape(wanted)}", +# \S.{{8,}}$', text, re.MULTILINE)
    ]
    assert silent == []


def test_every_package_is_installed(monkeypatch):
    setuptools = pytest.importorskip("setuptools", reason="only builds need it")
    # A package that is left out works from a checkout and is missing from the wheel.
    present = {module for module, file in MODULES.items() if file.name == "__init__.py"}
    found: dict[str, list[str]] = {}
    monkeypatch.setattr(setuptools, "setup", found.update)
    monkeypatch.chdir(ROOT)
    runpy.run_path("setup.py")
    assert sorted(found["packages"]) == sorted(present)


def test_every_folder_with_modules_is_a_package():
    bare = {
        str(file.parent.relative_to(ROOT))
        for file in MODULES.values()
        if not (file.parent / "__init__.py").exists()
    }
    assert bare == set()


#: Packages that take long to import or belong to an extra: loaded when first used.
HEAVY = ("pyspark", "amaranth", "matplotlib", "pandas", "duckdb", "polars")


def test_import_penstock_loads_nothing_heavy():
    ask = f"import sys, penstock; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", ask], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_ci_runs_lint_and_tests():
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    text = script.read_text(encoding="utf-8")
    assert "set -euo pipefail" in text
    assert "make lint" in text
    assert "make test" in text


def test_type_checkers_see_every_module(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("types_tree", ROOT / "scripts" / "types_tree.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    tree = tmp_path / "types"
    monkeypatch.setattr(script, "TREE", tree)
    assert script.main() == 0
    (tree / "gone.py").symlink_to("no/such/file.py")
    assert script.main() == 0
    links = {path.resolve() for path in tree.rglob("*.py")}
    examples = {file.resolve() for file in (ROOT / "examples").glob("*.py")}
    assert examples
    assert links == {file.resolve() for file in MODULES.values()} | examples
    assert not (tree / "gone.py").is_symlink()
