"""Limits that Spark gives a source before each micro-batch, from Spark 4.2 on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    TOLD = True
else:
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxRows,
            SupportsTriggerAvailableNow,
        )

        TOLD = True
    except ImportError:  # Spark 4.1: names that nothing is an instance of

        class ReadLimit: ...

        class ReadAllAvailable(ReadLimit): ...

        class ReadMaxRows(ReadLimit): ...

        class SupportsTriggerAvailableNow: ...

        TOLD = False

__all__ = ["TOLD", "ReadAllAvailable", "ReadLimit", "ReadMaxRows", "SupportsTriggerAvailableNow"]
