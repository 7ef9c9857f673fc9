"""Modules with a mistake in them: the source as it is, but for a text that is replaced.

A check that passes on the mutant as well checks nothing.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType


def mutated(module: ModuleType, *changes: tuple[str, str]) -> ModuleType:
    """A copy of a module with texts of its source replaced.

    Parameters
    ----------
    module : module
        It stays as it is, and so does whoever has imported it.
    changes : pairs of str
        A text that the source has exactly once, and what stands there instead.

    Raises
    ------
    ValueError
        The source does not have such a text exactly once, so that the mutant would be none.
    """
    file = Path(str(module.__file__))
    source = file.read_text(encoding="utf-8")
    for old, new in changes:
        if source.count(old) != 1:
            raise ValueError(f"{file.name} has {source.count(old)} times: {old!r}")
        source = source.replace(old, new)
    mutant = ModuleType(module.__name__)
    mutant.__package__ = module.__package__
    mutant.__file__ = module.__file__
    exec(compile(source, str(file), "exec"), mutant.__dict__)
    return mutant
