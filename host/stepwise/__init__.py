"""A join of streams in steps that can be repeated.

What a step gives is a function of the rows that are kept, the rows that are new, and what was
promised before and after it; nothing else is remembered. So a step whose output was lost is run
again, and its work is shared by any number of tasks that do not know of each other.
"""

from penstock.host.stepwise.frontier import Frontier, require_stepwise
from penstock.host.stepwise.retention import Block, needed, oldest
from penstock.host.stepwise.step import Kept, Share, Step

__all__ = ["Block", "Frontier", "Kept", "Share", "Step", "needed", "oldest", "require_stepwise"]
