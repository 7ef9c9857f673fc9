"""Joins of streams in steps that can be repeated.

The output of a step depends only on the kept rows, the new rows, and the watermarks before and
after it. So a step can be run again if its output was lost, and any number of independent tasks can
share its work.
"""

from .frontier import Frontier, moment_in
from .kept import Kept, Share
from .retention import Block, needed, oldest
from .step import MicroBatch

__all__ = ["Block", "Frontier", "Kept", "MicroBatch", "Share", "moment_in", "needed", "oldest"]
