"""Scripts and settings of the vendor's tools, as files with placeholders ``@{name}``.

They are written after the manuals (UG835, UG994, UG1118, UG1393) and public scripts; nobody has run
them here. ``tests/hw/board/vendor.py`` names those scripts, and refuses what none of them has.
"""

from __future__ import annotations

from pathlib import Path
from string import Template

_FOLDER = Path(__file__).parent


class _Placeholders(Template):
    """Placeholders that Tcl has no use for: its variables begin with a dollar sign."""

    delimiter = "@"


def fill(name: str, **values: object) -> str:
    """The text of a template, with each placeholder replaced by its value.

    Raises
    ------
    ValueError
        A placeholder has no value, or a value has no placeholder.
    """
    template = _Placeholders((_FOLDER / name).read_text(encoding="utf-8"))
    if unmatched := set(template.get_identifiers()) ^ set(values):
        raise ValueError(f"{name} and the values differ in {', '.join(sorted(unmatched))}")
    return template.substitute(values)
