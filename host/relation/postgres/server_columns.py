"""Columns of a table in PostgreSQL: their Arrow types, and how a SELECT reads each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.errors import DataError, SchemaError

from ...rows import gather

#: Types that Arrow has, by PostgreSQL's names.
_PLAIN = {
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "bool": pa.bool_(),
    "text": pa.string(),
    "varchar": pa.string(),
    "bpchar": pa.string(),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}
#: Types that come as the text that PostgreSQL writes.
_AS_TEXT = ("uuid", "json", "jsonb", "inet", "cidr", "macaddr", "macaddr8", "name", "xml")
#: Types whose equality in PostgreSQL differs from equality of the values read.
_NO_KEY = ("bpchar", *_AS_TEXT)
_MOST_DIGITS = 76
#: The least date and time of PostgreSQL, in days and microseconds of Unix time. The driver gives
#: infinite ones, and times too late for Arrow, as values below it.
LEAST_DAY, LEAST_US = -2_440_588, -210_866_803_200_000_000


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class PostgresColumn:
    """A column.

    Parameters
    ----------
    name : str
    kind : str
        Name of its type in PostgreSQL; arrays begin with an underscore.
    type : DataType
        In Arrow.
    lacks : str
        Why it cannot be read; empty if it can.
    is_cast : bool
        Whether it is read as text.
    """

    name: str
    kind: str
    type: pa.DataType
    lacks: str = ""
    is_cast: bool = False

    @staticmethod
    def described_by(field: pa.Field) -> PostgresColumn:
        """The column of a field as the driver describes it."""
        about = {k.decode(): v.decode() for k, v in (field.metadata or {}).items()}
        kind, modifier = about.get("POSTGRESQL:type", ""), int(about.get("POSTGRESQL:typmod", -1))
        name = field.name
        if kind in _PLAIN:
            return PostgresColumn(name, kind, _PLAIN[kind])
        if kind.startswith("_") and kind[1:] in _PLAIN:
            return PostgresColumn(name, kind, pa.list_(_PLAIN[kind[1:]]))
        if kind == "numeric":
            return _numeric(name, modifier)
        # An enum comes as a string under the name that its owner has given it.
        if kind in _AS_TEXT or (pa.types.is_string(field.type) and kind not in ("", "char")):
            return PostgresColumn(name, kind, pa.string(), is_cast=True)
        lacks = f"its type {kind or field.type} has no like in Arrow; CAST it in a view"
        return PostgresColumn(name, kind, pa.binary(), lacks)

    @property
    def selected(self) -> str:
        """Expression of a SELECT that reads the column."""
        return quoted(self.name) + ("::text" if self.is_cast else "")

    @property
    def checked(self) -> str | None:
        """A condition of SQL under which a value can be carried; None if all can.

        The driver makes flat lists of arrays of several dimensions.
        """
        if not pa.types.is_list(self.type):
            return None
        return f"coalesce(array_ndims({quoted(self.name)}), 1) = 1"

    def check(self, where: str) -> None:
        """Refuse a column that cannot be read.

        Raises
        ------
        SchemaError
        """
        if self.lacks:
            raise SchemaError(f"{self.name} of {where} cannot be read: {self.lacks}")

    def check_key(self, where: str) -> None:
        """Refuse a column that rows cannot be found by.

        Raises
        ------
        SchemaError
        """
        self.check(where)
        if self.is_cast or self.kind in _NO_KEY or pa.types.is_list(self.type):
            raise SchemaError(
                f"{self.name} of {where} cannot be a key, since it has the type {self.kind}; make "
                "a view with it CAST to text, an index on that expression, and name the view"
            )

    def array(self, read: pa.ChunkedArray, where: str) -> pa.Array:
        """Values as the driver gives them, with the column's type.

        Raises
        ------
        DataError
            One of them has no like in Arrow.
        """
        array = read.combine_chunks() if read.num_chunks != 1 else read.chunk(0)
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        try:
            if pa.types.is_decimal(self.type):
                array = _decimals(array, self.type)
            elif array.type != self.type:
                array = array.cast(self.type)
        except pa.ArrowInvalid as error:
            first_line = str(error).splitlines()[0]
            raise DataError(
                f"{where}.{self.name} holds a value that cannot be read: {first_line}; mend it, "
                "or leave such rows out in a view"
            ) from None
        least = _LEAST.get(self.kind.lstrip("_"))
        values = array.flatten() if pa.types.is_list(array.type) else array
        if least is not None and len(values) > values.null_count:
            word = np.int32 if pa.types.is_date32(values.type) else np.int64
            numbers = gather.values(values.drop_null(), np.dtype(word))
            if int(numbers.min()) < least:
                raise DataError(
                    f"{where}.{self.name} holds infinity, or a time too late for Arrow's "
                    "microseconds; leave such rows out, or CASE them, in a view"
                )
        return array


_LEAST = {"date": LEAST_DAY, "timestamp": LEAST_US, "timestamptz": LEAST_US}


def _numeric(name: str, modifier: int) -> PostgresColumn:
    """A numeric column, whose modifier holds digits and scale."""
    if modifier < 4:
        lacks = "numeric without digits has no like in Arrow; CAST it to numeric(38, 9), say, in "
        return PostgresColumn(name, "numeric", pa.binary(), lacks + "a view")
    digits, scale = (modifier - 4) >> 16, (modifier - 4) & 0x7FF
    scale -= 2048 if scale >= 1024 else 0
    if not 0 <= scale <= digits <= _MOST_DIGITS:
        lacks = f"numeric({digits}, {scale}) has no like in Arrow; CAST it in a view"
        return PostgresColumn(name, "numeric", pa.binary(), lacks)
    make = pa.decimal128 if digits <= 38 else pa.decimal256
    return PostgresColumn(name, "numeric", make(digits, scale))


def _decimals(texts: pa.Array, dtype: pa.DataType) -> pa.Array:
    """Convert the driver's texts to decimals."""
    if "nan" in texts.dictionary_encode().dictionary.to_pylist():
        raise pa.ArrowInvalid("NaN, which a decimal of Arrow has not")
    return texts.cast(dtype)
