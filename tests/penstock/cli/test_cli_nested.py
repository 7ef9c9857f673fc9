"""Lists, structs and maps from Parquet to Parquet."""

from __future__ import annotations

import pyarrow.parquet as pq

import penstock
from tests.kit.nested import TIME, counted, ids_of, joined_by_id, nested_table, select


def test_from_parquet_to_parquet(cli, tmp_path):
    tables = {"lt": nested_table(1, 90, 0), "rt": nested_table(2, 80, 1000)}
    # Arrow's reader of Parquet spoils lists of nothing but NULL.
    tables = {name: table.drop_columns(["nones"]) for name, table in tables.items()}
    for name, table in tables.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    given = [word for name in tables for word in ("-t", f"{name}={tmp_path / name}.parquet")]
    out = tmp_path / "out.parquet"
    _, errors, status = cli(
        "sql", select("*", "FULL"), *given, "--time", "a=t", "--time", "b=t", "--out", out
    )
    assert status == 0, errors
    ids = penstock.sql(ids_of("FULL"), tables, time=TIME)
    assert counted(pq.read_table(out)) == joined_by_id(ids, *tables.values())
