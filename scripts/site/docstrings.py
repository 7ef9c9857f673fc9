"""Docstrings as Markdown: references of Sphinx become links. An extension of Griffe."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(func|class|meth|attr|mod|exc|data):`(~)?([^`]+)`")
_PAGE = re.compile(r"\bdocs/([\w/-]+)\.md\b")
#: Several names with one text, and no type.
_NAMES = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)+)\n((?: {4}.+\n)+)", re.M)


class Links(griffe.Extension):
    """Link names and pages that docstrings mention, and give each parameter its own entry."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is None:
            return

        def reference(match: re.Match[str]) -> str:
            role, short, name = match.groups()
            shown = name.rpartition(".")[2] if short or name.startswith(".") else name
            full = _full(obj, role, name.lstrip("."))
            return f'<autoref optional identifier="{full}"><code>{shown}</code></autoref>'

        text = _ROLE.sub(reference, obj.docstring.value)
        # Pages of the reference are in one folder beside those of docs.
        text = _PAGE.sub(r'<a href="../\1.html">docs/\1.md</a>', text)
        obj.docstring.value = _NAMES.sub(_one_by_one, f"{text}\n").rstrip("\n")


def _one_by_one(match: re.Match[str]) -> str:
    # Griffe would give all of them the type of the first.
    return "".join(f"{name}\n{match[2]}" for name in match[1].split(", "))


def _full(obj: griffe.Object, role: str, name: str) -> str:
    """Where a name that a docstring mentions is documented."""
    if name.startswith("penstock."):
        return name
    if role in ("meth", "attr"):
        owner = obj if obj.is_class or obj.parent is None else obj.parent
        return f"{owner.path}.{name}"
    if name.endswith("Error"):
        return f"penstock.errors.{name}"
    bridge = "penstock.spark_bridge"
    return f"{bridge if obj.path.startswith(bridge) else 'penstock'}.{name}"
