"""Joins of streams in steps that can be repeated.

The output of a step depends only on the kept rows, the new rows, and the watermarks before and
after it. So a step can be run again if its output was lost, and any number of independent tasks can
share its work.
"""

from .frontier import Frontier, RowBlock, moment_in, needed, oldest
from .step import Kept, Share, StepOutput

__all__ = ["Frontier", "Kept", "RowBlock", "Share", "StepOutput", "moment_in", "needed", "oldest"]
