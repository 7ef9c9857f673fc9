"""A plugin of pytest: puts a mutant in the place of a module, and writes down what tests did.

Variables of the environment name the mutant's place in the list, or none, and the file for the
outcome.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from tests.hw.formal.proof import mutant

from .listed import MUTANTS
from .mutant import Mutant

#: Variables: the mutant's place in the list, empty for none; where the outcome goes.
MUTANT, OUTCOME = "PENSTOCK_MUTANT", "PENSTOCK_MUTANT_OUTCOME"

ROOT = Path(__file__).parents[3]


class Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports a mutant in the place of its module, for whoever imports that."""

    def __init__(self, change: Mutant, folder: Path) -> None:
        assert change.module not in sys.modules, "the module was imported already"
        self.change = change
        self.file = folder / f"{change.module.rpartition('.')[2]}.py"
        self.applied = False

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self.change.module:
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next(spec for one in others if (spec := one.find_spec(name, path, target)))
        assert spec.loader is not None
        self.loader, spec.loader = spec.loader, self
        return spec

    def exec_module(self, module: ModuleType) -> None:
        self.loader.exec_module(module)
        mutation = self.change.mutation
        changed = mutant(module, mutation)
        # Proofs read the source again.
        source = Path(str(module.__file__)).read_text(encoding="utf-8")
        self.file.write_text(source.replace(mutation.old, mutation.new), encoding="utf-8")
        changed.__file__, changed.__spec__ = str(self.file), module.__spec__
        changed.__loader__ = self
        sys.modules[module.__name__] = changed
        self.applied = True


class Recorder:
    """Writes down how each test ended."""

    def __init__(self, path: Path, changed: Changed | None) -> None:
        self.path = path
        self.changed = changed
        self.tests: list[dict[str, object]] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Iterator[None]:
        report = yield
        if report.when == "call" or not report.passed:
            self.tests.append(
                {
                    "node": item.nodeid,
                    "result": report.outcome,
                    "judged": report.when == "call" and _judged(call),
                    "seconds": report.duration,
                }
            )
        return report

    def pytest_sessionfinish(self) -> None:
        applied = self.changed is not None and self.changed.applied
        self.path.write_text(json.dumps({"applied": applied, "tests": self.tests}))


def _judged(call: pytest.CallInfo[None]) -> bool:
    """Whether the test itself said no, rather than that something went wrong on the way."""
    found = call.excinfo
    if found is None or not found.errisinstance((AssertionError, pytest.fail.Exception)):
        return False
    # An assertion in the hardware's own code is a mutant that cannot be built.
    last = Path(found.traceback[-1].path)
    in_time = "Timeout" not in str(found.value)
    return in_time and (last.is_relative_to(ROOT / "tests") or "_pytest" in last.parts)


def pytest_configure(config: pytest.Config) -> None:
    changed = None
    if place := os.environ[MUTANT]:
        changed = Changed(MUTANTS[int(place)], Path(tempfile.mkdtemp(prefix="mutant-")))
        sys.meta_path.insert(0, changed)
    config.pluginmanager.register(Recorder(Path(os.environ[OUTCOME]), changed))
