"""A DuckDB of one query: Arrow tables in and out, Spark's functions as macros."""

from __future__ import annotations

from collections.abc import Mapping

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
        import duckdb

        self._duckdb = duckdb
        self._connection = duckdb.connect(":memory:")
        zone = (time_zone or "UTC").replace("'", "''")
        self._connection.execute(f"SET TimeZone = '{zone}'; SET threads = 2;" + definitions())

    def run(self, text: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        """Run a query of these tables.

        Raises
        ------
        DataError
            A value cannot be computed.
        """
        for name, table in tables.items():
            self._connection.register(name, table)
        try:
            return self._connection.sql(text).to_arrow_table()
        except self._duckdb.OutOfMemoryException as error:
            raise MemoryError(_first_line(error)) from error
        except self._duckdb.Error as error:
            raise DataError(
                f"a part of the query cannot be computed: {_first_line(error)}"
            ) from error
        finally:
            for name in tables:
                self._connection.unregister(name)

    def close(self) -> None:
        self._connection.close()


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
