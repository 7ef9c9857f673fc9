"""Generated kernels as modules; their machine code is kept from run to run."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections import OrderedDict, deque
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import WeakValueDictionary, finalize

from penstock.kept_code import keep

from ...device import search
from . import fold_loops, loops, reduce, searching, vector

#: Unused sources that stay loaded; each takes from half a MB to some MB.
MOST_IDLE = 64
#: Functions that generated kernels call.
_CALLED = (fold_loops, loops, reduce, search, searching, vector)

_lock = threading.Lock()


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
