"""Distances on the sphere: the bands of space that bounds of them imply lose no pair."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.errors import DeviceError
from penstock.plan.query import LEFT, RIGHT
from penstock.plan.search import search_of
from penstock.query.compiler import compile_query
from penstock.query.options import QueryOptions

TIME = {"a": "t", "b": "t"}
NEAR = "b.t BETWEEN a.t - 300 AND a.t + 300"
H = "haversine(a.lat, a.lon, b.lat, b.lon)"
RADIUS = 6371008.8


def points(seed: int, count: int) -> pa.Table:
    """Points everywhere, at the poles, on the date line, and crowded in one place."""
    rng = np.random.default_rng(seed)
    lat, lon = rng.uniform(-90, 90, count), rng.uniform(-180, 180, count)
    pole, line, town = (rng.random(count) < share for share in (0.2, 0.3, 0.4))
    lat[pole] = np.sign(lat[pole]) * (90 - rng.exponential(0.01, pole.sum()))
    lon[line] = 180 * np.sign(lon[line]) + rng.normal(0, 0.01, line.sum())
    lat[town], lon[town] = 48 + rng.normal(0, 0.05, town.sum()), rng.normal(11, 0.05, town.sum())
    lat[rng.random(count) < 0.02] = np.nan
    return pa.table(
        {
            "t": np.sort(rng.integers(0, 1000, count)),
            "id": np.arange(count),
            "lat": lat,
            "lon": pa.array(lon, mask=rng.random(count) < 0.02),
            "r": np.where(rng.random(count) < 0.1, np.nan, rng.exponential(20_000, count)),
        }
    )


CONDITIONS = {
    f"{H} < 5000": lambda h, a, b: h < 5000,
    f"{H} / 1000 <= 50": lambda h, a, b: h <= 50_000,
    f"30000 > 2 * {H}": lambda h, a, b: h < 15_000,
    f"{H} < a.r": lambda h, a, b: (h < a["r"]) | (np.isnan(a["r"]) & ~np.isnan(h)),
    f"{H} <= b.r": lambda h, a, b: (h <= b["r"]) | np.isnan(b["r"]),
    f"{H} < 19000000": lambda h, a, b: h < 19_000_000,
    f"{H} < 1e9": lambda h, a, b: h < 1e9,
    f"{H} < -1": lambda h, a, b: h < -1,
    f"{H} <= 90": lambda h, a, b: h <= 90,
}


@pytest.mark.parametrize("text", CONDITIONS)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_bands_lose_no_pair(text: str, seed: int) -> None:
    tables = {"a": points(seed, 700), "b": points(seed + 10, 700)}
    found = penstock.sql(
        f"SELECT a.id AS i, b.id AS j FROM a JOIN b ON {text} AND {NEAR}", tables, time=TIME
    )
    a, b = (
        {name: column.to_numpy() for name, column in zip(t.column_names, t.columns, strict=True)}
        for t in tables.values()
    )
    a = {name: values[:, None] for name, values in a.items()}
    up, over = np.radians(a["lat"]), np.radians(b["lat"])
    along = np.sin(np.radians(b["lon"] - a["lon"]) / 2) ** 2
    share = np.sin((over - up) / 2) ** 2 + np.cos(up) * np.cos(over) * along
    distance = 2 * RADIUS * np.arcsin(np.sqrt(np.minimum(1, share)))
    known = ~pc.is_null(tables["a"]["lon"]).to_numpy()[:, None]
    known = known & ~pc.is_null(tables["b"]["lon"]).to_numpy()
    wanted = CONDITIONS[text](distance, a, b) & known & (abs(a["t"] - b["t"]) <= 300)
    assert set(zip(*found.to_pydict().values(), strict=True)) == set(
        zip(*map(np.ndarray.tolist, np.nonzero(wanted)), strict=True)
    )
    assert (found.num_rows > 0) == ("-1" not in text)


@pytest.mark.slow  # each device is compiled anew for each kind
@pytest.mark.parametrize(
    ("kind", "device"),
    [(kind, device) for kind in ("", "FULL", "SEMI", "ANTI") for device in ("rtl", "fjoin")],
)
def test_units_filter_and_the_host_tests(kind: str, device: str) -> None:
    tables = {"a": points(5, 120), "b": points(6, 150)}
    columns = "a.id AS i" if kind in ("SEMI", "ANTI") else "a.id AS i, b.id AS j"
    query = f"SELECT {columns} FROM a {kind} JOIN b ON {H} < 5000 AND {NEAR}"
    found = penstock.sql(query, tables, time=TIME, device=device)
    wanted = penstock.sql(query, tables, time=TIME)
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, wanted.to_pylist()))
    assert found.num_rows > 20


@pytest.mark.slow
def test_units_filter_rows_of_streams() -> None:
    tables = {"a": points(5, 60), "b": points(6, 80)}
    query = f"SELECT b.id AS j FROM a RIGHT JOIN b ON {H} / 1000 < 30 AND {NEAR}"
    schemas = {name: table.schema for name, table in tables.items()}
    with penstock.stream(query, schemas, time=TIME, device="fjoin", disorder=1000) as stream:
        for name, table in tables.items():
            stream.push(name, table)
        found = stream.close()
    wanted = penstock.sql(query, tables, time=TIME)
    assert sorted(found["j"].to_pylist()) == sorted(wanted["j"].to_pylist())


def test_a_predicate_without_keys_is_refused_by_units() -> None:
    tables = {"a": points(5, 20), "b": points(6, 20)}
    with pytest.raises(DeviceError, match="device rtl cannot run this query: key s0"):
        penstock.sql(
            f"SELECT a.id AS i FROM a JOIN b ON {H} > 5000 AND {NEAR}", tables, time=TIME,
            device="rtl",
        )  # fmt: skip


@pytest.mark.parametrize(("text", "keys"), [(f"{H} < 500", 3), (f"{H} < a.r", 3), (f"{H} > 9", 0)])
def test_windows_are_searched_by_coordinates(text: str, keys: int) -> None:
    schema = points(1, 1).schema
    query = compile_query(
        f"SELECT a.id FROM a JOIN b ON {text} AND {NEAR}", {"a": schema, "b": schema},
        QueryOptions(time=TIME),
    )  # fmt: skip
    assert len(search_of(query.predicate, RIGHT).keys) == keys
    assert len(search_of(query.predicate, LEFT).keys) == (0 if "a.r" in text else keys)
