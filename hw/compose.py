"""Cells of a design too large to synthesise in one piece.

Yosys in WebAssembly has 4 GB of memory, and 512 flattened units take more. Here each unit and each
block is synthesised without the parts below it. Equal parts are synthesised once; the sum counts
every instance. Nothing is optimised across the borders of parts, which mostly are registers; how
much that matters shows in a smaller build, by :func:`penstock.hw.cells.synthesise`.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator

from .cells import Cells, synthesise

#: Ends of the names of modules that are parts.
_PART = re.compile(r"\.((last_)?unit|(unit|block|pipeline|lane)_\d+)$")

_MODULE = re.compile(r"^module (\S+) ?\(.*?^endmodule\n", re.M | re.S)
_PORT = re.compile(r"^ +(?:input|output)\b.*;\n", re.M)
_HEAD = re.compile(r"^module \S+ ?\(.*?\);\n", re.S)
_INSTANCE = re.compile(r"^  (\\\S+)  ?\S+ \($", re.M)

#: Name of the top module of every part, so that equal parts have equal texts.
_NAME = "part"


def compose(text: str, top: str, synthesise: Callable[[str, str], Cells] = synthesise) -> Cells:
    """Sum of the cells of a design's parts.

    Parameters
    ----------
    text : str
        Verilog, as :func:`penstock.hw.verilog.verilog` writes it.
    top : str
        Name of the top module.
    synthesise : callable, optional
        Counts the cells of a text and its top; a caller may give one with a cache.
    """
    total: Counter[str] = Counter()
    known: dict[str, Cells] = {}
    for part in parts(text, top):
        key = _likeness(part)
        if key not in known:
            known[key] = synthesise(part, _NAME)
        total.update(vars(known[key]))
    return Cells(**total)


def parts(text: str, top: str) -> Iterator[str]:
    """Verilog of every part, the top first; parts below a part are empty modules."""
    modules = {match[1].removeprefix("\\"): match[0] for match in _MODULE.finditer(text)}
    below = {name: _below(name, body, modules) for name, body in modules.items()}
    waiting = [top]
    while waiting:
        part = waiting.pop()
        own, open_, empty = [part], [part], []
        while open_:
            for child in below[open_.pop()]:
                # Equal units share a module; each instance counts.
                if _PART.search(child):
                    empty.append(child)
                elif child not in own:
                    own.append(child)
                    open_.append(child)
        waiting += empty
        made = "".join(modules[name] for name in own)
        made += "".join(_stub(modules[name]) for name in dict.fromkeys(empty))
        # A name begins with its parent's, and a dot in it needs a backslash before it.
        named = rf"(?<![\w.])\\?{re.escape(part)}"
        made = re.sub(rf"{named}(?=\.)", lambda _: f"\\{_NAME}", made)
        yield re.sub(rf"{named}(?=[ (])", _NAME, made)


def _likeness(text: str) -> str:
    """Hash that is the same for parts with the same statements.

    Yosys writes the statements of equal modules in different orders, and with different names for
    nameless signals.
    """
    lines = re.sub(r"_\d+_|\$\d+", "_", text).splitlines()
    plain = sorted("".join(sorted(re.split(r"[, ();]+", line))) for line in lines)
    return hashlib.sha256("\n".join(plain).encode()).hexdigest()


def _below(name: str, body: str, modules: dict[str, str]) -> list[str]:
    found = [match[1].removeprefix("\\") for match in _INSTANCE.finditer(body)]
    return [child for child in found if child in modules and child != name]


def _stub(module: str) -> str:
    head = _HEAD.match(module)
    assert head is not None
    return f"(* blackbox *)\n{head[0]}{''.join(_PORT.findall(module))}endmodule\n"
