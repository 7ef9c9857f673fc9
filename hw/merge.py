"""Equal modules of a design as one.

Amaranth writes a module for each instance of a component. To count cells, or to compile a
simulation, one module for all equal instances saves Yosys most of its time: 512 units are of three
kinds.
"""

from __future__ import annotations

import re

_MODULE = re.compile(r"^module (\S+)\n.*?^end\n", re.M | re.S)
_CELL = re.compile(r"^(  cell )(\\\S+)(?= )", re.M)


def merge_modules(text: str) -> str:
    """RTLIL in which modules with equal contents are one, under the name of the first.

    Parameters
    ----------
    text : str
        RTLIL as Amaranth writes it. A name of a module is that of its parent, a dot and its own.
    """
    modules = {match[1]: match for match in _MODULE.finditer(text)}
    known: dict[str, str] = {}
    named: dict[str, str] = {}

    def settle(name: str) -> None:
        """Give a module and all below it the names that stay."""
        body = modules[name][0]
        # In their order: which of two equal modules gives the name must not be left to chance.
        for child in dict.fromkeys(match[2] for match in _CELL.finditer(body)):
            if child in modules and child not in named:
                settle(child)
        body = _CELL.sub(lambda match: match[1] + named.get(match[2], match[2]), body)
        named[name] = known.setdefault(body.removeprefix(f"module {name}\n"), name)

    for name in modules:
        if name not in named:
            settle(name)
    kept = {name: body for body, name in known.items()}

    def rewritten(match: re.Match[str]) -> str:
        name = match[1]
        return f"module {name}\n{kept[name]}" if named[name] == name else ""

    return _MODULE.sub(rewritten, text)
