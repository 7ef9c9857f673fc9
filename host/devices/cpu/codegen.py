"""Python source for Numba from the predicate of a general program, loaded as a module.

Each node of the DAG becomes one assignment for every two of its operands, so the source grows with
the edges of the DAG and no line is longer than a few operands. Integer steps are cast to int32 or
int64, the narrowest that holds the node and its operands: without the casts Numba computes in int64
and the loop runs at half the width or worse. Nothing in a step can trap or raise, so all of them
run on every pair, without branches. Machine code is kept from run to run.
"""

from __future__ import annotations

import hashlib
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import WeakValueDictionary, finalize

from penstock.expr.node import Expr, Op, walk
from penstock.kept_code import keep
from penstock.program import GeneralProgram
from penstock.types import Type

from ...device import intrinsics, search, zones
from ...device.storage import storage_dtype
from . import fold_loops, loops, searching, vector
from .operations import RULES, NotCompilable, Steps, leaf
from .templates import FoldKind, module_source

#: Most keys of both sides: compile time grows with their square, to seconds at 32.
MAX_KEYS = 24

#: Unused sources that stay loaded; each takes from half a MB to some MB.
MOST_IDLE = 64
#: Functions that generated kernels call.
_CALLED = (fold_loops, intrinsics, loops, search, searching, vector, zones)

_lock = threading.Lock()


@lru_cache(maxsize=64)
def generate(program: GeneralProgram, folded: FoldKind | None = None) -> str:
    """Source of a module with a function ``run`` for this program.

    Parameters
    ----------
    program : GeneralProgram
    folded : FoldKind, optional
        None for pairs.

    Raises
    ------
    NotCompilable
        A value may lie beyond int64, a step has no compiled form, or there are too many steps.
    """
    if len(program.stream) + len(program.window) > MAX_KEYS:
        raise NotCompilable(f"more than {MAX_KEYS} keys")
    for side, types in (("s", program.stream), ("w", program.window)):
        for k, dtype in enumerate(types):
            if storage_dtype(dtype).kind not in "bif":
                raise NotCompilable(f"key {side}{k} lies beyond int64")
    roots = [program.predicate]
    if folded not in (None, FoldKind.NONE):
        assert program.value is not None
        roots.append(program.value)
    nodes = list(walk(*roots))
    names: dict[Expr, str] = {}
    steps = Steps()
    for current in nodes:
        # Steps of the stream tuple alone are computed once per tuple.
        steps.per_pair = "w" in current.sides
        args = [names[a] for a in current.args]
        text = RULES[current.op](current, args, steps) if current.args else leaf(current)
        names[current] = steps.add(text)
    stream, body = steps.stream, steps.body
    body.append(f"flags[k] = {names[program.predicate]}")
    if len(roots) > 1:
        body.append(f"values[k] = {_VALUES[folded](names[roots[1]])}")
    # Slices, since an index that might be negative would turn each load into a gather.
    used = [e.attr[1] for e in nodes if e.op is Op.KEY and e.attr[0] == "w"]
    slices = [f"w{k} = window[{k}][position : position + len(flags)]" for k in used]
    layout = f"stream {_layout(program.stream)}, window {_layout(program.window)}"
    title = f"{steps.count} steps, {layout}"
    calls = any(e.op is Op.FUNCTION for e in nodes)
    return module_source(title, stream, slices, body, folded, _FUNCTIONS if calls else "")


_FUNCTIONS = "from penstock.expr import scalars"
#: Dtype of the values buffer, by fold kind.
_VALUES: dict[FoldKind | None, Callable[[str], str]] = {
    FoldKind.INTEGER: lambda name: f"np.int64({name})",
    FoldKind.ORDER: lambda name: f"order_key(np.float64({name}))",
    FoldKind.FLOAT: lambda name: f"np.float64({name})",
}


def _layout(types: tuple[Type, ...]) -> str:
    return ", ".join(str(storage_dtype(dtype)) for dtype in types) or "without keys"


class CompiledSource:
    """A loaded source.

    Module and machine code last as long as this object. Numba's own references to them are cycles
    that are never collected.

    Parameters
    ----------
    name : str
        Name of the module.
    text : str
    """

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        module = ModuleType(name)
        # Numba looks a function's module up by name while it compiles.
        sys.modules[name] = module
        finalize(self, _forget, module).atexit = False
        exec(compile(text, f"<{name}>", "exec"), module.__dict__)
        called = [Path(str(other.__file__)).read_bytes() for other in _CALLED]
        if "scalars" in module.__dict__:
            called += module.scalars.sources()
        #: The source's function ``run``, compiled by Numba.
        self.run: Any = keep(module.run, text.encode(), *called)
        #: Its function ``search``, for rows in the order of cells.
        self.search: Any = keep(module.search, text.encode(), *called)


_used: WeakValueDictionary[str, CompiledSource] = WeakValueDictionary()
_latest: OrderedDict[str, CompiledSource] = OrderedDict()
#: Modules of sources that no longer exist.
_over: deque[ModuleType] = deque()


def load_source(text: str) -> CompiledSource:
    """Load a source once; the latest sources stay loaded."""
    name = f"penstock_kernel_{hashlib.sha256(text.encode()).hexdigest()[:32]}"
    # An evicted source is freed after this lock is released, since freeing takes a lock of LLVM.
    oldest = None
    with _lock:
        source = _used.get(name)
        if source is None:
            source = _used[name] = CompiledSource(name, text)
        _latest[name] = source
        _latest.move_to_end(name)
        if len(_latest) > MOST_IDLE:
            _, oldest = _latest.popitem(last=False)
    del oldest
    _tidy()
    return source


def _forget(module: ModuleType) -> None:
    """Note that a source is gone. Any thread may call it with any lock held, so it never waits."""
    _over.append(module)
    _tidy()


def _tidy() -> None:
    if not _lock.acquire(blocking=False):
        return  # whoever holds it comes here next
    try:
        removed = [_over.popleft() for _ in range(len(_over))]
        for module in removed:
            if sys.modules.get(module.__name__) is module:
                del sys.modules[module.__name__]
    finally:
        _lock.release()
    for module in removed:
        module.__dict__.clear()
