"""Groups of one source in this process: one worker in the caller's or the stream's thread."""

from .group_stream import GroupStream
from .grouped_table import GroupedTable, grouped_table

__all__ = ["GroupStream", "GroupedTable", "grouped_table"]
