"""The list of mutants.

Not in it, since they change nothing that could matter:

- ``KernelConfig.reserve_words`` less 1 (TBD)
"""

from __future__ import annotations

from . import hls, join, kernel, window
from .mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (*join.MUTANTS, *kernel.MUTANTS, *window.MUTANTS, *hls.MUTANTS)
