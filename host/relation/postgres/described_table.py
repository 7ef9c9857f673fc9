"""A table, or a view, as a server describes it."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import SchemaError, ServerError

from .server import PostgresServer
from .server_columns import PostgresColumn, quoted

#: Kinds of relations that can be locked, and those that lie in blocks: tables, partitioned ones.
_LOCKED, _IN_BLOCKS = "rpv", "rp"
#: The first version whose scans of ranges of blocks read these only.
_RANGES = 140_000

_ABOUT = """
SELECT c.oid::int8 AS oid, n.nspname::text AS schema, c.relname::text AS name,
    c.relkind::text AS kind, current_setting('server_encoding') AS encoding,
    current_setting('server_version_num')::int4 AS version,
    (SELECT coalesce(max(pg_relation_size(p.relid) / current_setting('block_size')::int8), 0)::int8
        FROM pg_partition_tree(c.oid) p WHERE p.isleaf) AS part_blocks,
    (CASE WHEN c.relkind = 'r' THEN pg_relation_size(c.oid) ELSE 0 END
        / current_setting('block_size')::int8)::int8 AS blocks,
    current_setting('block_size')::int8 AS block_bytes
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass($1)"""
_PRIMARY = """
SELECT a.attname::text AS name FROM pg_index i
CROSS JOIN unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid::int8 = $1 AND i.indisprimary ORDER BY k.place"""
_INDEXED = """
SELECT count(*) AS n FROM pg_index i
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
WHERE i.indrelid::int8 = $1 AND i.indisvalid AND i.indpred IS NULL AND a.attname = ANY ($2)"""


@dataclass(frozen=True)
class PostgresTable:
    """Description of a table: names, columns, estimates of size, and how it can be read.

    Parameters
    ----------
    name : str
        Quoted, with its schema.
    columns : mapping of name to PostgresColumn
    key : tuple of str
    encoding : str
        Encoding of the database.
    rows, row_bytes : int
        Estimates.
    blocks, block_bytes : int
        Blocks of the table or its largest partition; 0 if it cannot be read by ranges.
    can_lock : bool
    is_indexed : bool
        Whether an index begins with a column of the key. Not known of views.
    """

    name: str
    columns: dict[str, PostgresColumn]
    key: tuple[str, ...]
    encoding: str
    rows: int
    row_bytes: int
    blocks: int
    block_bytes: int
    can_lock: bool
    is_indexed: bool

    @property
    def schema(self) -> pa.Schema:
        """Schema of the rows; columns that cannot be read are there, too."""
        return pa.schema([pa.field(one.name, one.type) for one in self.columns.values()])

    @staticmethod
    def described_by(server: PostgresServer) -> PostgresTable:
        """Ask a server to describe the table of its location.

        Raises
        ------
        ServerError, SchemaError, MissingToolError
        """
        where = server.location
        table_name = pa.RecordBatch.from_arrays([pa.array([where.table])], ["table"])
        described = server.query(_ABOUT, table_name).to_pylist()
        if not described:
            raise SchemaError(
                f"{where.name}: there is no table or view {where.table} in this database that "
                "this user can see; name its schema, too: table=SCHEMA.NAME"
            )
        about = described[0]
        name = f"{quoted(about['schema'])}.{quoted(about['name'])}"
        columns = columns_of(server, name)
        oid = pa.array([about["oid"]], pa.int64())
        by_oid = pa.RecordBatch.from_arrays([oid], ["oid"])
        key = where.key or tuple(server.query(_PRIMARY, by_oid)["name"].to_pylist())
        missing = [one for one in key if one not in columns]
        if missing:
            raise SchemaError(
                f"{where.name}: {name} has no column {', '.join(missing)} for a key; it has "
                f"{', '.join(columns)}"
            )
        for one in key:
            columns[one].check_key(where.name)
        rows, row_bytes = _estimates(server, name, columns)
        is_indexed = False
        if key:
            names = pa.array([list(key)], pa.list_(pa.string()))
            batch = pa.RecordBatch.from_arrays([oid, names], ["oid", "names"])
            is_indexed = bool(server.query(_INDEXED, batch)["n"][0].as_py())
        in_blocks = about["kind"] in _IN_BLOCKS and about["version"] >= _RANGES
        return PostgresTable(
            name,
            columns,
            key,
            about["encoding"],
            rows,
            row_bytes,
            max(1, about["blocks"], about["part_blocks"]) if in_blocks else 0,
            about["block_bytes"],
            about["kind"] in _LOCKED,
            is_indexed,
        )


def columns_of(server: PostgresServer, name: str) -> dict[str, PostgresColumn]:
    """The columns that a table has now.

    Raises
    ------
    ServerError, SchemaError
    """
    schema = server.query(f"SELECT * FROM {name} LIMIT 0").schema
    if len(set(schema.names)) < len(schema.names):
        raise SchemaError(f"{server.location.name} has two columns of one name")
    return {one.name: PostgresColumn.described_by(one) for one in schema}


def difference(old: dict[str, PostgresColumn], new: dict[str, PostgresColumn]) -> str:
    """Describe a difference between two lists of columns, for messages; empty if there is none."""
    changes = [f"{name} is gone" for name in old if name not in new]
    changes += [
        f"{name} was {old[name].kind} ({old[name].type}) and is {new[name].kind} ({new[name].type})"
        for name in old
        if name in new and (old[name].kind, old[name].type) != (new[name].kind, new[name].type)
    ]
    return "; ".join(changes)


def _estimates(
    server: PostgresServer, name: str, columns: dict[str, PostgresColumn]
) -> tuple[int, int]:
    """About how many rows there are, and bytes of each, as the planner thinks."""
    names = ", ".join(quoted(one) for one in columns)
    explained = server.query(f"EXPLAIN (FORMAT JSON) SELECT {names} FROM {name}", by_copy=False)
    try:
        plan = json.loads(explained.column(0)[0].as_py())[0]["Plan"]
        return max(0, int(plan["Plan Rows"])), max(1, int(plan["Plan Width"]))
    except (ValueError, LookupError, TypeError):
        raise ServerError(f"{server.location.name} gives no estimate of its rows") from None
