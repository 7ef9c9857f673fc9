"""Groups as state: a log store of folds, changes for other workers, and saved copies."""

from .contributions import FoldedRows
from .group_state import APPENDING_EPOCHS, PARTITIONS, GroupState

__all__ = ["APPENDING_EPOCHS", "PARTITIONS", "FoldedRows", "GroupState"]
