"""Examples in docstrings of public names: ``python -m tests.kit.docstrings MODULE NAME...``."""

from __future__ import annotations

import doctest
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import penstock


def public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yield the public names of a module, dunders and modules aside, with what they name."""
    for name in module.__all__:
        if not name.startswith("__") and not isinstance(getattr(module, name), ModuleType):
            yield name, getattr(module, name)


def examples(shown: Any, names: dict[str, Any]) -> doctest.DocTest:
    """The examples of a docstring; one without any fails, and so does one that skips them all."""
    label = shown.__name__
    test = doctest.DocTestParser().get_doctest(shown.__doc__ or "", names, label, None, None)
    assert any(doctest.SKIP not in one.options for one in test.examples), (
        f"{label} has no example that runs; add one to its docstring"
    )
    return test


def run_examples(package: ModuleType, value: Any, folder: Path) -> None:
    """Run the examples of a docstring in a folder, with the names of its package's docstring."""
    names: dict[str, Any] = {}
    for shown in (package, value):
        test = examples(shown, names)
        said: list[str] = []
        with chdir(folder):
            outcome = doctest.DocTestRunner().run(test, out=said.append, clear_globs=False)
        assert not outcome.failed, "".join(said)
        names = test.globs


if __name__ == "__main__":
    for name in sys.argv[2:]:
        with tempfile.TemporaryDirectory() as folder:
            run_examples(penstock, getattr(import_module(sys.argv[1]), name), Path(folder))
