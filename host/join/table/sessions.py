"""Sessions of the rows of two whole tables: each row gets the number of its session."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from penstock.plan.query import JoinQuery, named_by_side
from penstock.plan.sessions import SESSION

from ...rows.sides import Loaded, filtered, read_side
from ...sessions.key_codes import KeyCodes
from ...sessions.numbering import session_numbers
from ...windows.source import Source, Span, check_names
from .loading import check_order


def in_sessions(
    query: JoinQuery,
    tables: Mapping[str, pa.Table | Loaded],
    disorder: Span | Mapping[str, Span] | None,
) -> tuple[JoinQuery, dict[str, pa.Table | Loaded]]:
    """Number the session of each row, in a column beside; tables are then named by side.

    Raises
    ------
    DataError
        As for :class:`~.loading.Tables`.
    """
    sessions, judged = query.sessions, query.by_event_time
    assert sessions is not None
    check_names(disorder, judged.sides)
    keys = KeyCodes(sessions)
    found: list[tuple[pa.Table, np.ndarray]] = []
    codes, times = [], []
    for side in judged.sides:
        table = tables[side.table]
        assert not isinstance(table, Loaded)
        whole = table.combine_chunks()
        read = read_side(judged, side, whole)
        if disorder is not None:
            check_order(Source(side, disorder), read.timed)
        # By time, so that rows of a session are in its order.
        rows = filtered(side, read.timed).in_time_order()
        known, own = keys.of(side.side, rows)
        found.append((whole, rows.row[known]))
        codes.append(own)
        times.append(rows.time[known])
    numbers = session_numbers(np.concatenate(codes), np.concatenate(times), sessions.gap)
    parts = np.split(numbers, [len(codes[0])])
    made: dict[str, pa.Table | Loaded] = {}
    for side, (table, rows), own in zip(judged.sides, found, parts, strict=True):
        column, is_null = np.zeros(table.num_rows, np.int64), np.ones(table.num_rows, bool)
        column[rows], is_null[rows] = own, False
        made[side.side] = table.append_column(SESSION, pa.array(column, mask=is_null))
    return named_by_side(query), made
