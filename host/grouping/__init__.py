"""Groups of the rows of one source: a whole table, or a stream in one process."""

from .stream import GroupStream
from .table import GroupedTable, grouped_table

__all__ = ["GroupStream", "GroupedTable", "grouped_table"]
