"""SedonaDB: its spatial join of places on the sphere, and of the plane with the distance after."""

from __future__ import annotations

import importlib.util
import os
import warnings
from collections.abc import Callable
from functools import cache, partial

import pyarrow as pa

from bench.peers.join import THREADS, Join, Within
from bench.peers.sphere import METRES

#: Metres of a degree of latitude, at least.
_DEGREE_M = 111_000.0
#: Of the largest latitude of the workloads and a little beyond, where a degree of longitude is
#: shortest.
_MOST_LATITUDE_COSINE = 0.49


def contenders(join: Join) -> dict[str, Callable[[], pa.Table] | str]:
    """Calls by name, or why one is left out."""
    within = join.within
    if within is None:
        return {}
    if importlib.util.find_spec("sedonadb") is None:
        return {"SedonaDB": "not installed: pip install '.[bench]'"}
    forms = {"geographies": _geographies(within), "degrees": _degrees(within)}
    return {f"SedonaDB, {name}": partial(_run, join, on) for name, on in forms.items()}


def _run(join: Join, on: str) -> pa.Table:
    session = _session()
    within = join.within
    assert within is not None
    for name, side in zip("lr", join, strict=True):
        session.create_data_frame(side).to_view(f"{name}_arrow", overwrite=True)
        at = f"{within.lon}, {within.lat}"
        columns = f"id, {within.lat} AS lat, {within.lon} AS lon"
        text = f"SELECT {columns}, ST_GeogPoint({at}) AS g, ST_Point({at}) AS p FROM {name}_arrow"
        session.sql(text).to_view(name, overwrite=True)
    return session.sql(f"SELECT l.id AS i, r.id AS j FROM l JOIN r ON {on}").to_arrow_table()


def _geographies(within: Within) -> str:
    return f"ST_DWithin(l.g, r.g, {within.metres!r})"


def _degrees(within: Within) -> str:
    """A distance in degrees that is large enough in each direction, and the distance itself."""
    degrees = within.metres / _DEGREE_M / _MOST_LATITUDE_COSINE
    return f"ST_DWithin(l.p, r.p, {degrees!r}) AND {METRES} < {within.metres!r}"


@cache
def _session():
    # It asks for threads when it is first used.
    os.environ.setdefault("TOKIO_WORKER_THREADS", str(THREADS))
    with warnings.catch_warnings():
        # It looks for GDAL, which reads files of formats that are not used here.
        warnings.filterwarnings("ignore", "Failed to configure GDAL")
        import sedonadb

        session = sedonadb.connect()
        session.sql(f"SET datafusion.execution.target_partitions = {THREADS}").to_arrow_table()
    return session
