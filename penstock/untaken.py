"""Warning about rows of a stream that are dropped, since nobody took them."""

from __future__ import annotations

import warnings

import pyarrow as pa


class UntakenRowsWarning(UserWarning):
    """Rows that a stream gave at its end were dropped."""


def warn_untaken(rows: pa.Table | None, *raised: object) -> None:
    """Warn of rows that the end of a ``with`` block drops, unless an error ends it."""
    if not any(raised) and rows is not None and rows.num_rows:
        warnings.warn(
            f"{rows.num_rows} rows of a stream were not taken: the end of its with block closed "
            "it, and drops what close() returns; end the block with rest = stream.close()",
            UntakenRowsWarning,
            stacklevel=3,
        )
