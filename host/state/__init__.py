"""Groups as state: a log store of folds, changes for other workers, and saved copies."""

from .group_state import APPENDING_EPOCHS, PARTITIONS, FoldedRows, GroupState

__all__ = ["APPENDING_EPOCHS", "PARTITIONS", "FoldedRows", "GroupState"]
