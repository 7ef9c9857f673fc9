"""Docstrings as Markdown: references of Sphinx become links. An extension of Griffe."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:func|class|meth|attr|mod|exc|data):`(~)?([^`]+)`")
_PAGE = re.compile(r"\bdocs/([\w/-]+)\.md\b")


class Links(griffe.Extension):
    """Link names and pages that docstrings mention."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is None:
            return
        owner = obj.path if obj.is_class else obj.parent.path if obj.parent else ""

        def reference(match: re.Match[str]) -> str:
            short, name = match.groups()
            full = name if name.startswith("penstock.") else f"{owner}.{name.lstrip('.')}"
            shown = name.rpartition(".")[2] if short or name.startswith(".") else name
            return f'<autoref optional identifier="{full}"><code>{shown}</code></autoref>'

        text = _ROLE.sub(reference, obj.docstring.value)
        # Pages of the reference are in one folder beside those of docs.
        obj.docstring.value = _PAGE.sub(r'<a href="../\1.html">docs/\1.md</a>', text)
