"""The list of mutants.

Some mutants are not in it, since nothing that matters changes:

- ``KernelConfig.reserve_words`` less 1. When the head hears that words are short, what follows is
  at most three words that were handed over meanwhile, one that waits behind the lanes, and a word
  for each record of lanes and blocks, which the reserve counts. It has nine where these are four.
  ``tests/hw/kernel/test_shell.py`` holds the shell to that, with all queues full.
- A read master that does not hear a cancel between two bursts hears it a cycle later.

Two more were not decided and are in it: ``complete`` of a report, by which a paused task goes on
(in the head, the pipelines and the shell), and the quiet of blocks behind the first one.
"""

from __future__ import annotations

from . import hls, join, kernel, window
from .mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (*join.MUTANTS, *kernel.MUTANTS, *window.MUTANTS, *hls.MUTANTS)
