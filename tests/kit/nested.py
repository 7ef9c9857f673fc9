"""Tables with lists, structs and maps, and joins of them by the ids of their rows."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

STRUCT = pa.struct([("x", pa.int64()), ("y", pa.string())])
TYPES = {
    "tags": pa.list_(pa.string()),
    "ns": pa.list_(pa.int64()),
    "long": pa.large_list(pa.string()),
    "pair": pa.list_(pa.int32(), 2),
    "pos": STRUCT,
    "m": pa.map_(pa.string(), pa.int64()),
    "deep": pa.struct([("ls", pa.list_(pa.struct([("m", pa.map_(pa.int64(), STRUCT))])))]),
    "none": pa.null(),
    "nones": pa.list_(pa.null()),
}
NEAR = "a.k = b.k AND b.t BETWEEN a.t - 20 AND a.t + 20"
TIME = {"a": "t", "b": "t"}


def value_of(dtype: pa.DataType, random: np.random.Generator) -> object:
    """A random value, or NULL; empty lists and maps are not rare. Maps are in no order."""
    if pa.types.is_null(dtype) or random.random() < 0.2:
        return None
    if pa.types.is_struct(dtype):
        return {field.name: value_of(field.type, random) for field in dtype}
    if pa.types.is_map(dtype):
        keys = random.permutation(4)[: random.integers(0, 4)]
        names = ["z", "a", "é", ""]
        own = [names[k] if pa.types.is_string(dtype.key_type) else int(k) for k in keys]
        return [(key, value_of(dtype.item_type, random)) for key in own]
    if pa.types.is_integer(dtype):
        return int(random.integers(-3, 4))
    if pa.types.is_string(dtype):
        return "xyz"[: random.integers(0, 4)]
    count = dtype.list_size if pa.types.is_fixed_size_list(dtype) else random.integers(0, 4)
    return [value_of(dtype.value_type, random) for _ in range(count)]


def nested_table(seed: int, rows: int, first: int, *, dictionaries: bool = True) -> pa.Table:
    """Rows with ids from ``first`` on, of which the first and the last were sliced off."""
    random = np.random.default_rng(seed)
    count = rows + 5
    made = {
        "id": np.arange(first - 3, first - 3 + count),
        "t": np.sort(random.integers(0, rows * 5, count)),
        "k": random.integers(0, 4, count),
        **{
            name: pa.array([value_of(dtype, random) for _ in range(count)], dtype)
            for name, dtype in TYPES.items()
        },
    }
    if dictionaries:
        coded = pa.array([f"q{n}" for n in random.integers(0, 5, count)]).dictionary_encode()
        made["coded"] = pa.StructArray.from_arrays([coded], ["d"])
    return pa.table(made).slice(3, rows)


def counted(rows: pa.Table) -> Counter[str]:
    return Counter(map(repr, rows.to_pylist()))


def joined_by_id(ids: pa.Table, a: pa.Table, b: pa.Table) -> Counter[str]:
    """The rows of ``SELECT *``, of pairs of ids ``ai`` and ``bi``, or of ids ``ai`` alone."""
    sides = {"a": (a, "ai"), "b": (b, "bi")}
    own = {name: {row["id"]: row for row in one.to_pylist()} for name, (one, _) in sides.items()}
    found: Counter[str] = Counter()
    for pair in ids.to_pylist():
        if "bi" not in pair:
            found[repr(own["a"][pair["ai"]])] += 1
            continue
        row = {}
        for name, (one, key) in sides.items():
            rows = own[name].get(pair[key], {})
            row |= {f"{name}_{column}": rows.get(column) for column in one.column_names}
        found[repr(row)] += 1
    return found


def select(what: str, how: str = "", on: str = NEAR) -> str:
    """A query of two tables."""
    return f"SELECT {what} FROM lt a {how} JOIN rt b ON {on}"


def ids_of(how: str, on: str = NEAR) -> str:
    """The ids of a query's rows."""
    is_half = how.endswith(("SEMI", "ANTI"))
    return select("a.id AS ai" if is_half else "a.id AS ai, b.id AS bi", how, on)
