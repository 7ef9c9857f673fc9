"""Says which groups of a stream are complete."""

from __future__ import annotations

import math

from penstock.plan.group_query import GroupQuery, is_per_row, require_closing, time_key

from ..emit.groups.closing import GroupClosing, Limit
from ..windows.probe import Watermarks


class GroupLimits:
    """Turns the watermark of a source into the limit of complete groups.

    Raises
    ------
    QueryError
        It would never be known that a group is complete.
    """

    def __init__(self, query: GroupQuery) -> None:
        require_closing(query)
        #: Whether each row is a group of its own, which is complete at once.
        self.is_per_row = is_per_row(query)
        key = time_key(query)
        self._closing = None if key is None else GroupClosing(query, key)

    def limit(self, watermarks: Watermarks) -> Limit:
        """Return the time key below which no group gets a further row."""
        if self.is_per_row:
            return math.inf
        assert self._closing is not None
        return self._closing.limit(watermarks)
