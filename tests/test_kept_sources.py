"""Kept machine code is named by the source of every module whose functions and constants it has."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from penstock.host.state import generated_sources
from tests.test_packaging import MODULES, resolve

#: A module and a name that it defines; no name stands for the module itself.
Place = tuple[str, str]


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def imported(module: str, source: ast.Module) -> dict[str, Place]:
    """Where the names come from that a module imports from modules of the project."""
    places = {}
    package = MODULES[module].name == "__init__.py"
    for node in source.body:
        if isinstance(node, ast.ImportFrom):
            home = resolve(module, package=package, node=node)
            for alias in node.names:
                child, name = f"{home}.{alias.name}", alias.asname or alias.name
                if child in MODULES:
                    places[name] = child, ""
                elif home in MODULES:
                    places[name] = home, alias.name
    return places


def definitions(source: ast.Module, name: str) -> Iterator[ast.stmt]:
    """Statements of a module that define a name: functions, classes and assignments."""
    for node in source.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names = {node.name}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {n.id for one in targets for n in ast.walk(one) if isinstance(n, ast.Name)}
        else:
            continue
        if name in names:
            yield node


def used(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """Names that a definition uses, except parameters; each with its attribute, or ""."""
    parts = node.body if isinstance(node, ast.FunctionDef) else [node]
    locals_ = set()
    if isinstance(node, ast.FunctionDef):
        locals_ = {argument.arg for argument in node.args.args}
    for part in (each for one in parts for each in ast.walk(one)):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
            name, attribute = part.value.id, part.attr
        elif isinstance(part, ast.Name):
            name, attribute = part.id, ""
        else:
            continue
        if name not in locals_:
            yield name, attribute


@cache
def own_imports(module: str) -> dict[str, Place]:
    return imported(module, tree(module))


def sources(place: Place, seen: set[Place]) -> set[str]:
    """Modules that define a name, and all that it uses."""
    module, name = place
    if place in seen or not name:
        return set()
    seen.add(place)
    places, modules = own_imports(module), set()
    if name in places:
        return sources(places[name], seen)
    for node in definitions(tree(module), name):
        modules.add(module)
        for other, attribute in used(node):
            home, known = places.get(other, (module, other))
            modules |= sources((home, known or attribute), seen)
    return modules


def kept_functions(module: str) -> Iterator[tuple[str, set[str]]]:
    """Functions that a module keeps compiled, with the modules that name their machine code."""
    places = own_imports(module)
    for node in tree(module).body:
        for call in getattr(node, "decorator_list", []):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "kept":
                assert isinstance(node, ast.FunctionDef)
                yield node.name, {module, *(places[ast.unparse(one)][0] for one in call.args)}


def test_kept_functions_name_all_modules_that_they_use():
    count = 0
    for module in MODULES:
        for name, known in kept_functions(module):
            lacking = sources((module, name), set()) - known
            assert not lacking, f"@kept of {module}.{name} lacks {sorted(lacking)}"
            count += 1
    assert count > 50


def test_generated_loops_name_all_modules_that_they_use():
    places = imported(generated_sources.__name__, ast.parse(generated_sources._HEAD))
    modules = set().union(*(sources(place, set()) for place in places.values()))
    assert modules <= {module.__name__ for module in generated_sources._USED}
    assert len(modules) > 3


def test_what_a_constant_is_made_of_is_found():
    place = "penstock.host.state.probing", "leaders"
    assert sources(place, set()) == {
        "penstock.host.keys.hashing",
        "penstock.host.keys.splitmix",
        "penstock.host.routing.base",
        "penstock.host.state.entry_layout",
        "penstock.host.state.probing",
    }
