"""Generated kernels as modules, whose machine code is kept from run to run."""

from __future__ import annotations

import hashlib
import sys
import threading
from pathlib import Path
from types import ModuleType

from penstock.host.device.cpu import folds, loops, reduce, vector
from penstock.host.kept_code import keep

#: What generated kernels call.
_CALLED = (folds, loops, reduce, vector)
_lock = threading.Lock()


def load_source(source: str) -> ModuleType:
    """The module of this source, with its function ``run``; one for each source."""
    name = f"penstock_kernel_{hashlib.sha256(source.encode()).hexdigest()[:32]}"
    with _lock:
        if name in sys.modules:
            return sys.modules[name]
        module = ModuleType(name)
        # Numba looks a function's module up by name while it compiles.
        sys.modules[name] = module
        try:
            exec(compile(source, f"<{name}>", "exec"), module.__dict__)
        except BaseException:
            del sys.modules[name]
            raise
        called = (Path(str(other.__file__)).read_bytes() for other in _CALLED)
        keep(module.run, source.encode(), *called)
        return module
