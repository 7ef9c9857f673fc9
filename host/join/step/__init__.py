"""A join of streams in steps that can be repeated.

What a step gives is a function of the rows that are kept, the rows that are new, and what was
promised before and after it; nothing else is remembered. So a step whose output was lost is run
again, and its work is shared by any number of tasks that do not know of each other.
"""

from .frontier import Frontier
from .retention import Block, needed, oldest
from .step import Kept, MicroBatch, Share

__all__ = ["Block", "Frontier", "Kept", "MicroBatch", "Share", "needed", "oldest"]
