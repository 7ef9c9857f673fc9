"""Groups of a worker: the state backend of paper 2 (SSB), one log store per pane of time.

A worker is the *leader* of some cells of keys, and a *helper* of the leaders of all others: it
folds changes for them, and sends these at the end of each *epoch*.
"""

from .contributions import FoldedRows
from .group_state import APPENDING_EPOCHS, GroupState

__all__ = ["APPENDING_EPOCHS", "FoldedRows", "GroupState"]
