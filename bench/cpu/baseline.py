"""The C baselines: compiled in this run, called through ctypes.

Each of the three sources is compiled with ``gcc -O3 -march=native`` and once more with
``-mprefer-vector-width=512``, since gcc prefers 256-bit vectors on some processors; the fastest of
all counts.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from penstock.errors import MissingToolError

SOURCES = ("branch", "rescan", "compress")
FLAGS = ("-O3", "-march=native")
EXTRA = ((), ("-mprefer-vector-width=512",))


@dataclass(frozen=True)
class Baseline:
    """One compiled join.

    Parameters
    ----------
    name : str
        Source, predicate form and flags, for the table.
    form : str
        "band" or "plain".
    run : callable
        ``run(columns, rows, window, out_i, out_j, d)`` gives the number of pairs; see
        :func:`call`.
    """

    name: str
    form: str
    run: Callable[..., int]


def compile_all(folder: Path) -> list[Baseline]:
    """Every baseline that this machine can run.

    Raises
    ------
    MissingToolError
        There is no gcc.
    """
    if shutil.which("gcc") is None:
        raise MissingToolError("the C baselines need gcc, which is not installed; apt install gcc")
    folder.mkdir(parents=True, exist_ok=True)
    done = []
    for source in SOURCES:
        if source == "compress" and not _has_avx512():
            continue
        for extra in EXTRA:
            target = folder / f"{source}{len(extra)}.so"
            path = Path(__file__).with_name(f"{source}.c")
            command = ["gcc", *FLAGS, *extra, "-shared", "-fPIC", "-o", str(target), str(path)]
            subprocess.run(command, check=True, timeout=120)
            library = ctypes.CDLL(str(target))
            suffix = " 512" if extra else ""
            done += [
                Baseline(f"{source} {form}{suffix}", form, _bind(library, form))
                for form in ("band", "plain")
            ]
    return done


def _has_avx512() -> bool:
    asked = subprocess.run(
        ["gcc", *FLAGS, "-dM", "-E", "-x", "c", "/dev/null"],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return "__AVX512F__" in asked.stdout


def _bind(library: ctypes.CDLL, form: str) -> Callable[..., int]:
    function = getattr(library, f"{form}_join")
    function.restype = ctypes.c_uint64

    def run(
        columns: list[np.ndarray],
        rows: int,
        window: int,
        out_i: np.ndarray,
        out_j: np.ndarray,
        d: int = 0,
    ) -> int:
        """Columns in the order of the struct of the form; ``d`` for the plain form only."""
        pointers = [column.ctypes.data for column in columns]
        fields = [(f"c{k}", ctypes.c_void_p) for k in range(len(columns))]
        struct = type("Data", (ctypes.Structure,), {"_fields_": [*fields, ("d", ctypes.c_int32)]})
        data = struct(*pointers, d)
        return int(
            function(
                ctypes.byref(data),
                ctypes.c_uint64(rows),
                ctypes.c_uint64(window),
                out_i.ctypes.data_as(ctypes.c_void_p),
                out_j.ctypes.data_as(ctypes.c_void_p),
            )
        )

    return run
