"""GROUP BY over one source in this process: a whole table, or a stream."""

from .stream import GroupStream
from .table import GroupedTable, grouped_table

__all__ = ["GroupStream", "GroupedTable", "grouped_table"]
