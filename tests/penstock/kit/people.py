"""The queries of tests/sql, which people asked about windowed joins in public, and their tables."""

from __future__ import annotations

import datetime
import math
import re
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pyarrow as pa

FOLDER = Path(__file__).parents[2] / "sql"
#: Digits to which results of other engines agree, who add floats in another order.
DIGITS = 9


@dataclass(frozen=True)
class Asked:
    """A query, and what is said of it in its first lines."""

    name: str
    text: str
    said: dict[str, str]

    def __str__(self) -> str:
        return self.name

    @property
    def tables(self) -> list[str]:
        return self.said["tables"].split(", ")

    @property
    def time(self) -> dict[str, str] | None:
        given = self.said.get("time")
        return None if given is None else dict(one.split("=") for one in given.split(", "))

    @property
    def is_of_streams(self) -> bool:
        return self.said["on"] == "streams"


def every_query(oracle: str) -> list[Asked]:
    found = []
    for path in sorted(FOLDER.glob("*.sql")):
        text = path.read_text(encoding="utf-8")
        said = dict(re.findall(r"^-- (\w+): (.*)$", text, re.MULTILINE))
        if said["oracle"] == oracle:
            found.append(Asked(path.stem, text, said))
    return found


def every_table() -> dict[str, pa.Table]:
    spec = spec_from_file_location("people_data", FOLDER / "data.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.tables()


def _plain(value: object) -> object:
    match value:
        case bool() | None | str():
            return value
        case float() if math.isnan(value):
            return "NaN"
        case int() | float() | Decimal():
            return f"{float(value):.{DIGITS}g}"
        case datetime.datetime():
            return value.replace(tzinfo=None)
        case list() | tuple():
            return tuple(map(_plain, value))
        case dict():
            return tuple(map(_plain, value.values()))
    return value


def counted(table: pa.Table) -> Counter:
    """The rows, for comparison with those of another engine, whose types may differ."""
    columns = [column.to_pylist() for column in table.columns]
    return Counter(tuple(map(_plain, row)) for row in zip(*columns, strict=True))
