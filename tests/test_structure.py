"""The structure of the house: rooms depend one way, and one name stands for one class."""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from penstock.host.channel.links import RemoteLinks
from penstock.host.relation.border import ServerRelation
from tests.test_packaging import CONFIG, MODULES, imports

#: Packages with packages inside.
OUTER = {name.rpartition(".")[0] for name, file in MODULES.items() if file.name == "__init__.py"}


def room_of(module: str) -> str:
    """The package of a module; in a package that has others inside, each module is a room."""
    is_package = MODULES[module].name == "__init__.py"
    package = module if is_package else module.rpartition(".")[0]
    return module if package in OUTER else package


def arrows(modules: dict[str, Path]) -> dict[str, set[str]]:
    """Which rooms each room imports; types alone do not count."""
    found: dict[str, set[str]] = defaultdict(set)
    for module, file in modules.items():
        source = _without_types(file.read_text(encoding="utf-8"))
        for imported in imports(module, source, package=file.name == "__init__.py"):
            if imported in MODULES and room_of(imported) != room_of(module):
                found[room_of(module)].add(room_of(imported))
    return found


def _without_types(source: str) -> str:
    """The source without what is imported for type checkers only."""
    if "TYPE_CHECKING" not in source:
        return source
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            node.body = [ast.Pass()]
    return ast.unparse(tree)


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Rooms that depend on each other in a circle, if any do."""
    done: set[str] = set()
    path: list[str] = []

    def visit(room: str) -> list[str]:
        if room in path:
            return path[path.index(room) :]
        if room in done:
            return []
        path.append(room)
        for following in sorted(graph.get(room, ())):
            if found := visit(following):
                return found
        done.add(path.pop())
        return []

    for room in sorted(graph):
        if found := visit(room):
            return found
    return []


def test_rooms_depend_one_way():
    # A pipeline of hw knows its configuration, and that makes its pipeline: one room, in two files.
    own = {m: f for m, f in MODULES.items() if not m.startswith("penstock.hw.join")}
    assert cycle(arrows(own)) == []


def test_a_cycle_is_found():
    assert cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c"]
    assert cycle({"a": {"b", "c"}, "b": {"c"}}) == []


def test_no_two_public_classes_of_the_host_share_a_name():
    homes: dict[str, list[str]] = defaultdict(list)
    for module, file in MODULES.items():
        if module.startswith("penstock.host"):
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    homes[node.name].append(module)
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


#: Groups of entry points whose classes stand behind a border, and the classes of the border.
BEHIND = {"penstock.networks": RemoteLinks, "penstock.relations": ServerRelation}


def importers(package: str) -> list[str]:
    """Modules outside of a package that import it or a part of it, for types, too."""

    def is_inside(module: str) -> bool:
        return module == package or module.startswith(f"{package}.")

    return [
        module
        for module, file in MODULES.items()
        if not is_inside(module)
        for imported in imports(
            module, file.read_text(encoding="utf-8"), package=file.name == "__init__.py"
        )
        if is_inside(imported)
    ]


@pytest.mark.parametrize("group", BEHIND)
def test_nothing_imports_what_stands_behind_a_border(group):
    classes = CONFIG["project"]["entry-points"][group]
    for name, value in classes.items():
        assert issubclass(EntryPoint(name, value, group).load(), BEHIND[group])
        package = value.partition(":")[0]
        assert MODULES[package].name == "__init__.py"
        assert importers(package) == []


def test_importers_are_seen():
    assert "penstock.host.channel.link_maker" in importers("penstock.host.channel.links")


def outside(source: str) -> set[str]:
    """Packages that are not Python's own that a module imports, without those of its folder."""
    named = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level != 1:
            named.add("." * node.level + (node.module or ""))
    return {name for name in named if name.partition(".")[0] not in sys.stdlib_module_names}


def test_plans_of_keys_need_numpy_alone():
    """And errors: no device, no Arrow, no Spark, no compiler."""
    own = [file for name, file in MODULES.items() if name.startswith("penstock.host.routing.")]
    assert len(own) > 10
    for file in own:
        found = outside(file.read_text(encoding="utf-8"))
        assert found <= {"numpy", "penstock.errors"}, file
    assert outside("import numba.core\nfrom ..rows import columns") == {"numba.core", "..rows"}


def test_rooms_keep_their_budget_of_lines():
    """The table of rooms in docs/architecture.md says how many lines each room has at most."""
    root = Path(__file__).parents[1]
    table = (root / "docs/architecture.md").read_text(encoding="utf-8")
    rooms = re.findall(r"^\| (`.+`) \| .+ \| ([\d,]+) \|$", table, re.MULTILINE)
    assert len(rooms) >= 30
    for cell, most in rooms:
        files = [file for name in cell.split(", ") for file in (root / name[1:-1]).rglob("*.py")]
        lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
        assert 0 < lines <= int(most.replace(",", "")), (
            f"{cell} has {lines} lines, of {most} at most"
        )
