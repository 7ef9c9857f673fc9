"""A DuckDB of one query: Arrow tables in and out, Spark's functions as macros."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from penstock.around.duckdb_sql.macros import definitions
from penstock.errors import DataError


class RelationalEngine:
    """Runs queries over Arrow tables.

    Parameters
    ----------
    time_zone : str
        In which times are read and days begin.
    """

    def __init__(self, time_zone: str | None) -> None:
        self._zone = time_zone or "UTC"
        self._opened: Any = None

    @property
    def _connection(self) -> Any:
        """The database, opened for the first query: not all that is split is run."""
        if self._opened is None:
            import duckdb

            zone = self._zone.replace("'", "''")
            self._opened = duckdb.connect(":memory:")
            self._opened.execute(f"SET TimeZone = '{zone}'; SET threads = 2;" + definitions())
        return self._opened

    def run(self, text: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        """Run a query of these tables.

        Raises
        ------
        DataError
            A value cannot be computed.
        """
        import duckdb

        try:
            for name, table in tables.items():
                self._connection.register(name, table)
            return self._connection.sql(text).to_arrow_table()
        except duckdb.OutOfMemoryException as error:
            raise MemoryError(_first_line(error)) from error
        except duckdb.Error as error:
            raise DataError(
                f"a part of the query cannot be computed: {_first_line(error)}"
            ) from error
        finally:
            for name in tables:
                self._connection.unregister(name)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
