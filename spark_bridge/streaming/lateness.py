"""How far out of order the rows of a source may be."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from pyspark.sql import DataFrame

from penstock.errors import UsageError
from penstock.host.windows.source import Source, Span, check_names
from penstock.plan.query import JoinQuery, Side

#: Metadata in which Spark keeps the delay that withWatermark was given.
_DELAY_MS = "spark.watermarkDelayMs"


def disorder_of(
    query: JoinQuery, tables: Mapping[str, DataFrame], given: Span | Mapping[str, Span] | None
) -> dict[str, int]:
    """Disorder per side, in the window's unit.

    Raises
    ------
    UsageError
        Nothing says how far out of order a source may be.
    """
    check_names(given, query.sides)
    named, default = (given, None) if isinstance(given, Mapping) else ({}, given)
    spans = {name.lower(): span for name, span in named.items()}
    found = {}
    for side in query.sides:
        span = spans.get(side.alias.lower(), spans.get(side.table.lower(), default))
        if span is None:
            span = _delay(side, tables[side.table])
        found[side.side] = Source(side, {side.alias: span}).disorder
    return found


def _delay(side: Side, table: DataFrame) -> timedelta:
    """The delay that ``withWatermark`` was given for a side's time."""
    column = Source(side, 0).column
    assert column is not None
    name = column.attr[1]
    metadata = next(f.metadata for f in table.schema if f.name == name)
    if _DELAY_MS not in metadata:
        raise UsageError(
            f"{side.alias} has no watermark on {name}, so it is not known when a window is "
            f'complete: give table {side.table} as frame.withWatermark("{name}", "5 minutes"), '
            f"or say disorder={{'{side.alias}': timedelta(minutes=5)}} (for a time column of "
            "integers: a number in its unit)"
        )
    return timedelta(milliseconds=metadata[_DELAY_MS])
