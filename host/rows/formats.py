"""Formats of table files: each gives a file's schema, its rows as a table, or batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq

from penstock.errors import UsageError

#: Endings of names, and the formats that they stand for; text may also be packed, as ``.csv.gz``.
SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".ndjson": "json",
    ".jsonl": "json",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}

#: Bytes of text of which the types of a file's columns are told where it is read batch by batch.
_TEXT_BYTES = 1 << 22
_INT96_UNIT = "us"  # Spark's, in which its years up to 9999 fit


def format_of(path: Path) -> str | None:
    """Name of a file's format, by the ending of its name; None for any other."""
    *_, packed, suffix = "", "", *(one.lower() for one in path.suffixes)
    if suffix == ".gz":
        kind = SUFFIXES.get(packed)
        return kind if kind in ("csv", "json") else None
    return SUFFIXES.get(suffix)


class Format(Protocol):
    """A format of files."""

    def schema(self, path: Path) -> pa.Schema: ...

    def table(self, path: Path, columns: Sequence[str] | None) -> pa.Table:
        """Rows of a file, with the columns that it has of these; None stands for all."""
        ...

    def batches(self, path: Path, rows: int) -> Iterator[pa.RecordBatch]: ...


class _Parquet:
    def schema(self, path: Path) -> pa.Schema:
        return _parquet_schema(path)

    def table(self, path: Path, columns: Sequence[str] | None) -> pa.Table:
        if columns is not None:
            columns = [name for name in columns if name in self.schema(path).names]
        return _parquet_table(path, columns)

    def batches(self, path: Path, rows: int) -> Iterator[pa.RecordBatch]:
        # Microseconds for timestamps of the oldest form, as where tables are read.
        for file in pq.ParquetDataset(path).files:
            with pq.ParquetFile(file, coerce_int96_timestamp_unit="us") as opened:
                yield from opened.iter_batches(batch_size=rows)


class _Arrow:
    def schema(self, path: Path) -> pa.Schema:
        with pa.OSFile(str(path)) as source, pa.ipc.open_file(source) as reader:
            return reader.schema

    def table(self, path: Path, columns: Sequence[str] | None) -> pa.Table:
        with pa.OSFile(str(path)) as source, pa.ipc.open_file(source) as reader:
            return _chosen(reader.read_all(), columns)

    def batches(self, path: Path, rows: int) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)


class _JsonLines:
    def schema(self, path: Path) -> pa.Schema:
        return self.table(path, None).schema

    def table(self, path: Path, columns: Sequence[str] | None) -> pa.Table:
        return _chosen(pajson.read_json(path), columns)

    def batches(self, path: Path, rows: int) -> Iterator[pa.RecordBatch]:
        yield from self.table(path, None).to_batches(rows)


@dataclass(frozen=True, kw_only=True)
class CsvFormat:
    """How CSV files are written.

    Parameters
    ----------
    delimiter : str
        One ASCII character between values; ``\\t`` may be written for a tab.
    header : bool
        Whether the first line has the names of the columns, around which blanks do not count.
        Otherwise they are ``_c0``, ``_c1``, ... as in Spark.
    null : tuple of str
        Values without quotes that are NULL, also in columns of text. If there are none, ``NULL``,
        ``NaN``, ``N/A``, an empty value and the like are, and only in other columns.

    Raises
    ------
    UsageError
        The delimiter is not one ASCII character, or is a quote or the end of a line.
    """

    delimiter: str = ","
    header: bool = True
    null: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self._separator) != 1 or not self._separator.isascii() or self._separator in '"\r\n':
            raise UsageError(
                f"delimiter is one ASCII character, such as ; or \\t (tab), not {self.delimiter!r}"
            )

    @property
    def _separator(self) -> str:
        return "\t" if self.delimiter == "\\t" else self.delimiter

    def schema(self, path: Path) -> pa.Schema:
        """Schema of a file; types are told from all its values, so all of it is read."""
        return self.table(path, None).schema

    def table(self, path: Path, columns: Sequence[str] | None) -> pa.Table:
        """Rows of a file, with the columns that it has of these; None stands for all."""
        table = pacsv.read_csv(path, **self._options())
        return _chosen(table.rename_columns(self._names(table.schema)), columns)

    def batches(self, path: Path, rows: int) -> Iterator[pa.RecordBatch]:
        """Rows of a file in batches; an empty first one has the schema if there are none."""
        with pacsv.open_csv(path, **self._options(block_size=_TEXT_BYTES)) as reader:
            schema = pa.schema(
                [
                    f.with_name(n)
                    for f, n in zip(reader.schema, self._names(reader.schema), strict=True)
                ]
            )
            yield pa.RecordBatch.from_pylist([], schema)
            for batch in reader:
                yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

    def _options(self, **block: int) -> Mapping[str, Any]:
        convert = pacsv.ConvertOptions()
        if self.null:
            convert = pacsv.ConvertOptions(
                null_values=self.null, strings_can_be_null=True, quoted_strings_can_be_null=False
            )
        return {
            "read_options": pacsv.ReadOptions(autogenerate_column_names=not self.header, **block),
            "parse_options": pacsv.ParseOptions(delimiter=self._separator, newlines_in_values=True),
            "convert_options": convert,
        }

    def _names(self, schema: pa.Schema) -> Sequence[str]:
        if not self.header:
            return [f"_c{place}" for place in range(len(schema))]
        names = [name.strip() for name in schema.names]
        return names if len(set(names)) == len(set(schema.names)) else schema.names


def formats(csv: CsvFormat) -> Mapping[str, Format]:
    """Formats by name."""
    return {"parquet": _Parquet(), "arrow": _Arrow(), "json": _JsonLines(), "csv": csv}


def _chosen(table: pa.Table, columns: Sequence[str] | None) -> pa.Table:
    if columns is None:
        return table
    return table.select([name for name in columns if name in table.schema.names])


def _parquet_schema(path: str | PathLike) -> pa.Schema:
    """Schema of a file, or of the files of a folder."""
    dataset = pq.ParquetDataset(path, coerce_int96_timestamp_unit=_INT96_UNIT)
    return _with_instants(dataset.schema, dataset.files)


def _parquet_table(path: str | PathLike, columns: Sequence[str] | None = None) -> pa.Table:
    """Rows of a file, or of the files of a folder."""
    wanted = None if columns is None else list(columns)
    table = pq.read_table(path, columns=wanted, coerce_int96_timestamp_unit=_INT96_UNIT)
    files = pq.ParquetDataset(path).files
    return table.cast(_with_instants(table.schema, files))


def parquet_group(path: str | PathLike, group: int, columns: Sequence[str]) -> pa.Table:
    """A row group of a file."""
    with pq.ParquetFile(path, coerce_int96_timestamp_unit=_INT96_UNIT) as file:
        rows = file.read_row_group(group, columns=list(columns))
    return rows.cast(_with_instants(rows.schema, [path]))


def _with_instants(schema: pa.Schema, files: Sequence[str | PathLike]) -> pa.Schema:
    """The schema with a zone for the timestamps that are INT96 in the first of some files.

    Those, the oldest form, are instants, as for Spark. Arrow reads them without a zone, and by
    default in nanoseconds, of which years before 1677 and after 2262 have none.
    """
    naive = [f.name for f in schema if pa.types.is_timestamp(f.type) and f.type.tz is None]
    if not naive or not files:
        return schema
    with pq.ParquetFile(files[0]) as file:
        stored = file.schema
        old = {
            c.path for k in range(len(stored)) if (c := stored.column(k)).physical_type == "INT96"
        }
    for name in old.intersection(naive):
        index = schema.get_field_index(name)
        field = schema.field(index)
        schema = schema.set(index, field.with_type(pa.timestamp(field.type.unit, "UTC")))
    return schema
