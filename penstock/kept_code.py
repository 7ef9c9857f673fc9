"""Machine code that Numba made, kept from run to run in a folder of this user alone.

Numba's own cache believes whatever index lies beside the source, notices no change in the modules
that a function calls, and lets two processes overwrite each other's files. Here each compiled form
is one file, named by a hash of all that it depends on.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
import pickle
import re
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numba
from numba import njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.serialize import dumps

from .private_folder import cache_folder, private_folder_if_possible

_log = logging.getLogger("penstock.cache")

_only_kept: ContextVar[bool] = ContextVar("only_kept", default=False)

#: Name of the folder below the cache folder.
FOLDER = "kernels"
#: Bytes of machine code that is kept, about; a form takes some 0.1 MB.
MOST_BYTES = 1 << 30
#: The folder's size is looked at when one of so many forms is added.
LOOK_AT_ONE_OF = 64
_HASH_BYTES = hashlib.sha256().digest_size
#: Name of the file of a form: that of its function, and a hash.
_FORM = re.compile(r"[A-Za-z_][\w.<>]*-[0-9a-f]{32}")


class NotKeptError(Exception):
    """A form is not kept, and must not be compiled here."""


class PlainSteps:
    """Counts the work that this process has done with NumPy in place of machine code, per function.

    Beyond a limit, machine code is loaded or compiled. Work up to the limit takes about 0.3 s, as
    long as loading takes.

    Parameters
    ----------
    pairs, rows : int
        Most pairs of tuples to test with a program, and rows of a function; -1 for none.
    """

    def __init__(self, pairs: int = 10_000_000, rows: int = 1_000_000) -> None:
        self.pairs, self.rows = pairs, rows
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    def takes_pairs(self, code: str, pairs: int) -> bool:
        """Add pairs to the count; False once it is beyond the limit, and from then on."""
        return self._takes(code, pairs, self.pairs)

    def takes_rows(self, code: str, rows: int) -> bool:
        """Note rows, as :meth:`takes_pairs` does pairs; a call counts as a thousand at least."""
        return self._takes(code, max(rows, 1000), self.rows)

    def _takes(self, code: str, steps: int, most: int) -> bool:
        with self._lock:
            self._taken[code] += steps
            return self._taken[code] <= most


#: The steps of this process.
PLAIN = PlainSteps()


@contextmanager
def only_kept() -> Iterator[None]:
    """In this thread, load kept machine code; what would be compiled is a :class:`NotKeptError`."""
    token = _only_kept.set(True)
    try:
        yield
    finally:
        _only_kept.reset(token)


def kept(
    *used: ModuleType, plain: Callable[..., Any] | None = None
) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function without the interpreter's lock, and keep its machine code.

    Parameters
    ----------
    used : modules
        Modules whose functions it calls, beside its own: a change in them compiles it anew.
    plain : callable, optional
        The same function by NumPy, for its first rows, the length of the first argument; see
        :class:`PlainSteps`. No compiled function can then call it.
    """

    def compiled(function: Callable[..., Any]) -> Any:
        source = Path(inspect.getfile(function))
        sources = [source, *(Path(str(module.__file__)) for module in used)]
        dispatcher = keep(njit(nogil=True)(function), *(path.read_bytes() for path in sources))
        return dispatcher if plain is None else _plain_first(dispatcher, plain)

    return compiled


def _plain_first(dispatcher: Any, plain: Callable[..., Any]) -> Callable[..., Any]:
    code = repr(dispatcher.py_func)

    def call(*arguments: Any) -> Any:
        few = PLAIN.takes_rows(code, len(arguments[0]))
        return (plain if few else dispatcher)(*arguments)

    return call


def keep(dispatcher: Any, *depends: bytes) -> Any:
    """Keep the machine code of a function of Numba.

    Parameters
    ----------
    dispatcher : Dispatcher
        What ``njit`` made.
    depends : bytes
        All that the code depends on: its source, and that of what it calls.
    """
    dispatcher._cache = _Cache(dispatcher.py_func, depends)
    return dispatcher


class _Form(CompileResultCacheImpl):
    """How a compiled form is written and read; Numba's own way, without a place of its own."""

    def __init__(self, function: Callable[..., Any]) -> None:
        code = function.__code__
        self._lineno = code.co_firstlineno
        # Named in a warning, and asked to make a folder, which is done elsewhere.
        self._locator = SimpleNamespace(_py_file=code.co_filename, ensure_cache_path=lambda: None)


class _Cache(FunctionCache):
    """Cache that a dispatcher reads before it compiles, and fills afterwards."""

    def __init__(self, function: Callable[..., Any], depends: tuple[bytes, ...]) -> None:
        self._name = repr(function)
        self._py_func = function
        self._impl = _Form(function)
        self._cache_path = str(cache_folder(FOLDER))
        # What is kept imports its module by name, so a module that was moved has other forms.
        self._cache_file = _Files(function.__qualname__, (function.__module__.encode(), *depends))
        self.enable()


class _Files:
    """Compiled forms of one function, each in a file."""

    def __init__(self, name: str, depends: tuple[bytes, ...]) -> None:
        self._name = name
        self._depends = hashlib.sha256(f"numba {numba.__version__} {name}".encode())
        for part in depends:
            self._depends.update(f" {len(part)} ".encode() + part)

    def load(self, key: object) -> Any:
        """The form of a signature and processor; None if it is not there as it should be."""
        with private_folder_if_possible(cache_folder(FOLDER)) as folder:
            name = self._file(key)
            content = None if folder is None else folder.read(name)
            if folder is not None and content is not None:
                folder.used(name)
        if content is not None:
            digest, data = content[:_HASH_BYTES], content[_HASH_BYTES:]
            if hashlib.sha256(data).digest() == digest:
                return pickle.loads(data)
        if _only_kept.get():
            raise NotKeptError(self._name)
        return None

    def save(self, key: object, data: object) -> None:
        """Keep a form, where that is possible."""
        content = dumps(data)
        with private_folder_if_possible(cache_folder(FOLDER)) as folder:
            if folder is not None:
                try:
                    folder.write(self._file(key), hashlib.sha256(content).digest() + content)
                    # Not each time: it looks at every file.
                    if secrets.randbelow(LOOK_AT_ONE_OF) == 0:
                        folder.trim(MOST_BYTES, _FORM)
                except OSError as cause:
                    _log.info("machine code is not kept in %s: %s", folder.path, cause)

    def flush(self) -> None:
        """Numba's way to forget; names by content need none."""

    def _file(self, key: object) -> str:
        digest = self._depends.copy()
        digest.update(repr(key).encode())
        return f"{self._name}-{digest.hexdigest()[:32]}"
