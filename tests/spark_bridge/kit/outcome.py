"""What a streaming join has written, beside what it should have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

import penstock
from tests.spark_bridge.kit.streams import Row, rows_of, table


@dataclass(frozen=True)
class Outcome:
    """Rows of the output, beside those that there should be."""

    rows: int
    lost: int
    doubled: int

    @staticmethod
    def of(
        folder: Path,
        text: str,
        sides: Mapping[str, Sequence[Sequence[Row]]],
        foreign: Container[Path] = (),
    ) -> Outcome:
        """Of what is in ``output`` and ``rest``, beside the join of the tables."""
        whole = {side: table([r for part in parts for r in part]) for side, parts in sides.items()}
        return Outcome.beside(folder, penstock.sql(text, whole), foreign)

    @staticmethod
    def beside(folder: Path, expected: pa.Table, foreign: Container[Path] = ()) -> Outcome:
        """Of those files' columns that the expected rows have; foreign files are no output."""
        folders = [folder / "output", folder / "rest"]
        parts = [_rows(one, expected.schema, foreign) for one in folders if one.exists()]
        names = expected.column_names
        found = Counter(rows_of(pa.concat_tables(parts), names))
        wanted = Counter(rows_of(expected, names))
        return Outcome(found.total(), (wanted - found).total(), (found - wanted).total())

    @property
    def is_exact(self) -> bool:
        return not (self.lost or self.doubled)


def _rows(folder: Path, schema: pa.Schema, foreign: Container[Path]) -> pa.Table:
    if (folder / "_delta_log").exists():
        from deltalake import DeltaTable

        return DeltaTable(folder).to_pyarrow_table().select(schema.names).cast(schema)
    paths = [path for path in folder.rglob("*.parquet") if path not in foreign]
    files = [str(path) for path in paths if not path.name.startswith((".", "_"))]
    # What a killed attempt left in Spark's temporary folders is no output.
    files = [name for name in files if "_temporary" not in name]
    return ds.dataset(files, schema=schema).to_table()
