"""Loading of generated loops, whose machine code is kept from run to run."""

from __future__ import annotations

import hashlib
import sys
from collections import OrderedDict
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.kept_code import keep

from ..device import intrinsics
from ..devices.cpu import vector
from ..keys import hashing, splitmix
from ..routing import base as base_routing
from . import machine, probing

#: Loops that stay loaded; each takes some hundred KB.
MOST_LOADED = 64
#: Modules whose functions and constants the loops use.
_USED = (base_routing, hashing, intrinsics, machine, probing, splitmix, vector)
_HEAD = '''"""Generated loops of a query's groups."""

import numpy as np
from numba import njit

from penstock.host.devices.cpu.vector import select, truncated_remainder
from penstock.host.keys.hashing import NULL, mix
from penstock.host.keys.splitmix import SEED, SPREAD
from penstock.host.routing.base import WORKER_CELLS
from penstock.host.state.machine import at, float_of, prefetch, put, word_of
from penstock.host.state.probing import AHEAD, ENTRY, ONE, TAG, cell_of_hash

HALF, WORD = np.uint64(16), np.uint64(32)
'''

_loaded: OrderedDict[str, ModuleType] = OrderedDict()


def load_loops(text: str, *names: str) -> tuple[Any, ...]:
    """Return the functions of a source, each compiled by Numba when it is first called.

    Parameters
    ----------
    text : str
        Source of the functions, for the names that :data:`_HEAD` has.
    names : str
        Of all its functions.
    """
    source = _HEAD + text
    digest = hashlib.sha256(source.encode()).hexdigest()[:32]
    module_name = f"penstock_groups_{digest}"
    module = _loaded.get(module_name)
    if module is None:
        module = ModuleType(module_name)
        # Numba looks a function's module up by name while it compiles.
        sys.modules[module_name] = module
        exec(compile(source, f"<{module_name}>", "exec"), module.__dict__)
        used = [Path(str(other.__file__)).read_bytes() for other in _USED]
        for name in names:
            module.__dict__[name] = keep(module.__dict__[name], source.encode(), *used)
        _loaded[module_name] = module
    _loaded.move_to_end(module_name)
    if len(_loaded) > MOST_LOADED:
        oldest, _ = _loaded.popitem(last=False)
        sys.modules.pop(oldest, None)
    return tuple(module.__dict__[name] for name in names)
