"""The words of the code: names that name something, docstrings that do not begin with a pronoun."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: Names that name nothing.
EMPTY = re.compile(
    "found|own|made|given|told|asked|sought|said|dealt|of|others|rest|what|those|such|it|them|here"
    "|there|asking|telling|lets?|looked_up|come|gone|taken|left_over"
)
#: Begins of docstrings that hang on something that the reader does not see.
PRONOUN = re.compile(r"(What|Those|Of|That|Such|Which|Where|Whose|Who|When|They|It|As)\b")
#: How many places each room still has at most; rooms that are not here have none.
MOST = {
    "host/device": 2,
    "host/metrics": 1,
    "hw": 123,
    "sim": 47,
    "constraints": 2,
}
ROOMS = [
    *sorted(
        str(p.relative_to(ROOT))
        for top in ("penstock", "host")
        for p in (ROOT / top).iterdir()
        if any(p.glob("*.py"))
    ),
    *("spark_bridge", "hw", "sim", "constraints"),
]


def places(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line of each empty name and of each docstring that begins with a pronoun."""
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.arg):
            names = [node.arg]
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names = [node.id]
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names = [node.attr]
        yield from ((node.lineno, name) for name in names if EMPTY.fullmatch(name.strip("_")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            docstring = ast.get_docstring(node) or ""
            if PRONOUN.match(docstring):
                yield getattr(node, "lineno", 1), docstring.partition("\n")[0]


def test_places_are_seen() -> None:
    source = 'def f(own):\n    """What is of it."""\n    found = own.size\n    return found\n'
    assert sorted(places(source)) == [(1, "What is of it."), (1, "own"), (3, "found")]


@pytest.mark.parametrize("room", ROOMS)
def test_words_of_a_room(room: str) -> None:
    lines = [
        f"{file.relative_to(ROOT)}:{line}: {text}"
        for file in sorted((ROOT / room).rglob("*.py"))
        for line, text in places(file.read_text(encoding="utf-8"))
    ]
    assert len(lines) <= MOST.get(room, 0), "\n".join(lines)
