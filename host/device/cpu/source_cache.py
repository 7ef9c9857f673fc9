"""Generated kernels as files, so that Numba can keep their machine code from run to run.

A file is named by the hash of what it does and of what it calls. ``PENSTOCK_CACHE_DIR`` moves the
folder.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
import threading
from pathlib import Path
from types import ModuleType

import numba
from platformdirs import user_cache_dir

from penstock.host.device.cpu import folds, loops, reduce, vector

_lock = threading.Lock()


def cache_folder() -> Path:
    """Folder of the generated kernels; it need not exist."""
    root = os.environ.get("PENSTOCK_CACHE_DIR") or user_cache_dir("penstock")
    return Path(root) / "kernels"


def load_source(source: str) -> ModuleType:
    """The module of this source, from the cache folder if it is there.

    Where the folder cannot be written the kernel lives in a folder of this process: correct, but
    compiled again by the next one.
    """
    name = f"penstock_kernel_{_digest(source)}"
    with _lock:
        if name in sys.modules:
            return sys.modules[name]
        try:
            path = _write(cache_folder(), name, source)
        except OSError:
            path = _write(Path(tempfile.mkdtemp(prefix="penstock-kernels-")), name, source)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[name] = module
        return module


def _digest(source: str) -> str:
    """Hash of the source, of the loops it is compiled with, and of the compiler's version."""
    digest = hashlib.sha256(f"numba {numba.__version__}\n{source}".encode())
    for path in (module.__file__ for module in (folds, loops, reduce, vector)):
        # Numba looks at the time of the generated file only, not at those of what it calls.
        digest.update(Path(str(path)).read_bytes())
    return digest.hexdigest()[:32]


def _write(folder: Path, name: str, source: str) -> Path:
    """Write the file unless it is there as it should be: a new time would void its cache."""
    path = folder / f"{name.removeprefix('penstock_kernel_')}.py"
    if path.is_file() and path.read_text(encoding="utf-8") == source:
        return path
    folder.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(source)
    os.replace(temporary, path)
    return path
