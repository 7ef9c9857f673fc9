"""Predicates that kernels are built for: of workloads, examples, documents, and by hand.

The files of a query are two rows long. They have the smallest and the largest value of each column,
which is all that the widths of a build depend on.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.cli import pipeline_options as command
from penstock.cli.inputs import QueryArguments
from penstock.expr import ops
from penstock.hw.join.config import JoinConfig
from penstock.program import GeneralProgram
from penstock.sim.workloads import Attack, backbone, city
from penstock.types import BOOL, int_of

Columns = dict[str, pa.Array]


@dataclass(frozen=True)
class BuiltIn:
    """A query that a kernel is built for, as ``penstock export --sql`` takes it.

    Parameters
    ----------
    sql : str
    tables : dict of str to dict of str to Array
        Columns by table.
    options : dict
        Of :class:`penstock.cli.inputs.QueryArguments`, ``window`` and ``no_band``.
    modes : str, optional
        As ``--modes`` takes them.
    """

    sql: str
    tables: dict[str, Columns]
    options: dict[str, Any]
    modes: str | None = None

    def files(self, folder: Path) -> list[str]:
        """Write the tables; what ``--table`` takes."""
        given = []
        for name, columns in self.tables.items():
            pq.write_table(pa.table(columns), folder / f"{name}.parquet")
            given.append(f"{name}={folder / name}.parquet")
        return given

    def config(self, folder: Path) -> JoinConfig:
        """The build that the command line makes of it."""
        build = {key: self.options[key] for key in ("window", "no_band") if key in self.options}
        asked = QueryArguments(**{k: v for k, v in self.options.items() if k not in build})
        query = command.BuildQuery(sql=self.sql, table=self.files(folder), options=asked, **build)
        return command.PipelineArguments(modes=self.modes).config(2, query)


def _ends(dtype: pa.DataType, low: Any, high: Any) -> pa.Array:
    return pa.array([low, high], dtype)


_int32, _uint32 = partial(_ends, pa.int32()), partial(_ends, pa.uint32())
_ID = _ends(pa.int64(), 0, 1)
_TIMESTAMP = _ends(pa.timestamp("us"), 0, 60_000_000)

_PLACE = {"lon": _int32(11_300_000, 11_400_000), "lat": _int32(2_200_000, 2_300_000)}
_CITY = {
    "orders": {"id": _ID, "ts": _TIMESTAMP, **_PLACE},
    "gps": {"id": _ID, "ts": _TIMESTAMP, "vehicle": _int32(0, 299), **_PLACE},
}

_ADDRESS = _uint32(1 << 24, (223 << 24) + 7)
_BACKBONE = {
    name: {"id": _ID, "ts": _TIMESTAMP, "sourceIP": _ADDRESS, "destinationIP": _ADDRESS}
    for name in "rs"
}

_SITES = {
    name: {"id": _ID, "ts": _TIMESTAMP, "dstport": _ends(pa.uint16(), 1, 65_535)}
    for name in ("tsukuba", "uec")
}

_NEAR = """
SELECT o.id, g.vehicle FROM orders o JOIN gps g
  ON abs(o.lon - g.lon) < 1000 AND abs(o.lat - g.lat) < 1000
 AND g.ts BETWEEN o.ts - INTERVAL 30 SECONDS AND o.ts + INTERVAL 30 SECONDS
"""

_CONFLICTS = """
SELECT a.icao24 AS one, b.icao24 AS other FROM a JOIN b
  ON b.t_s BETWEEN a.t_s - 1 AND a.t_s + 1 AND a.icao24 < b.icao24
 AND abs(a.alt_ft - b.alt_ft) < 1000
 AND (a.x_m - b.x_m) * (a.x_m - b.x_m) + (a.y_m - b.y_m) * (a.y_m - b.y_m) <= 9260 * 9260
"""
_AIRCRAFT = {
    name: {
        "t_s": _int32(0, 1799),
        "icao24": _int32(0, (1 << 24) - 1),
        "x_m": _int32(-130_000, 130_000),
        "y_m": _int32(-130_000, 130_000),
        "alt_ft": _int32(0, 45_000),
    }
    for name in "ab"
}

_CROSSED = """
SELECT a.t_ms AS a_ms, b.t_ms AS b_ms FROM venue_a a JOIN venue_b b
  ON b.t_ms BETWEEN a.t_ms - 500 AND a.t_ms + 500
 AND (a.bid_e5 - b.ask_e5 >= 10 OR b.bid_e5 - a.ask_e5 >= 10)
"""
_QUOTES = {
    name: {
        "t_ms": _int32(1000, 4 * 3_600_000),
        "bid_e5": _int32(112_000, 114_000),
        "ask_e5": _int32(112_005, 114_005),
    }
    for name in ("venue_a", "venue_b")
}

_ANSWERED = """
SELECT s.id, d.t_us AS answered_us FROM tls s LEFT JOIN dns d
  ON s.t_us BETWEEN d.t_us AND d.t_us + INTERVAL 60 SECONDS
 AND s.orig_ip = d.orig_ip AND s.resp_ip = d.answer_ip
"""
_ASKED = {"t_us": _ends(pa.int64(), 0, 600_000_000), "orig_ip": _int32(10 << 24, (10 << 24) + 200)}
_LOGS = {
    "dns": {**_ASKED, "answer_ip": _int32(93 << 24, (94 << 24) - 1)},
    "tls": {"id": _ID, **_ASKED, "resp_ip": _int32(93 << 24, (94 << 24) - 1)},
}


def _mixed(condition: str) -> str:
    window = "b.t BETWEEN a.t - 10 AND a.t + 20"
    return f"SELECT a.id AS i, b.id AS j FROM a JOIN b ON {condition} AND {window}"


#: Columns of every kind that hardware takes; each may be NULL.
_MIXED = {
    name: {
        "id": _ID,
        "t": _int32(0, 1000),
        "x": _ends(pa.int16(), -100, 27),
        "y": _int32(-(1 << 20), 1 << 20),
        "u": _ends(pa.uint8(), 0, 255),
        "price": pa.array([1.25, 99.5]),
        "paid": _ends(pa.decimal128(9, 3), 0, 99_999),
        "day": _ends(pa.date32(), 0, 20_000),
        "at": _ends(pa.timestamp("ms"), 0, 1_700_000_000_000),
        "is_open": pa.array([False, True]),
        "name": pa.array(["ab", "c"]),
    }
    for name in "ab"
}
_T = {"time": ["a=t", "b=t"]}
_WITHOUT_BAND = {"no_band": True}

_SECONDS = {"time": ["a=t_s:s", "b=t_s:s"], "window": "b"}
_MILLISECONDS = {"time": ["a=t_ms:ms", "b=t_ms:ms"], "window": "b"}

#: Queries of the workloads, of the examples and of the documents whose tests are set at run time.
BAND = {
    "city": BuiltIn(city.query(), _CITY, {}),
    "backbone": BuiltIn(backbone.query(), _BACKBONE, {}),
    "attack": BuiltIn(Attack().query(), _SITES, {"rows": "100"}),
    "near": BuiltIn(_NEAR, _CITY, {}),
    "quotes": BuiltIn(_CROSSED, _QUOTES, _MILLISECONDS),
    "names and connections": BuiltIn(_ANSWERED, _LOGS, {"time": ["s=t_us:us", "d=t_us:us"]}),
}

#: The same and others, built in; and one for each sort of key and operation.
BUILT_IN = {
    "city": BuiltIn(city.query(), _CITY, _WITHOUT_BAND),
    "backbone": BuiltIn(backbone.query(), _BACKBONE, _WITHOUT_BAND),
    "attack": BuiltIn(Attack().query(), _SITES, {"rows": "9", "window": "uec", **_WITHOUT_BAND}),
    "near, count and exists": BuiltIn(_NEAR, _CITY, _WITHOUT_BAND, modes="count,exists"),
    "quotes": BuiltIn(_CROSSED, _QUOTES, {**_MILLISECONDS, **_WITHOUT_BAND}),
    "aircraft": BuiltIn(_CONFLICTS, _AIRCRAFT, _SECONDS),
    "remainders": BuiltIn(
        _mixed("(a.x - b.x) % 7 = -3 AND (a.u + b.u) % 8 = 5"), _MIXED, {**_T, "window": "b"}
    ),
    "bits": BuiltIn(
        _mixed(
            "(a.u & b.u) = 9 AND (a.x | b.x) < (a.u << (b.u & 7))"
            " AND (a.y ^ ~b.y) > (b.y >> (a.u & 15))"
        ),
        _MIXED,
        {**_T, "window": "b"},
    ),
    "choices": BuiltIn(
        _mixed(
            "CASE WHEN a.is_open THEN a.x * b.x WHEN b.x < a.x THEN -b.y ELSE a.y END"
            " > least(a.x, b.y, a.u) + greatest(b.u, a.y) * b.x"
        ),
        _MIXED,
        {**_T, "window": "a"},
    ),
    "decimals and times": BuiltIn(
        _mixed(
            "a.price * b.paid > 3.5 AND a.at < b.at + INTERVAL 3 HOURS"
            " AND a.day - b.day < INTERVAL 2 DAYS"
        ),
        _MIXED,
        {**_T, "window": "b", "scale": ["a.price=2", "b.price=2"]},
    ),
    "texts and lists": BuiltIn(
        _mixed("(a.name = b.name OR a.u IN (1, 2, 9) AND NOT b.x * a.x IN (4, 6))"),
        _MIXED,
        {**_T, "window": "b"},
    ),
}


def every_operation() -> GeneralProgram:
    """A predicate that has every operation that can be built, and a value beside it."""
    number, flag = int_of(20, nullable=False), BOOL.as_nullable(False)
    s = [ops.key("s", i, number) for i in range(2)]
    w = [ops.key("w", i, number) for i in range(2)]
    few = ops.bit_and(s[1], ops.const(7))
    dx, dy = (ops.sub(a, b) for a, b in zip(s, w, strict=True))
    parts = [
        ops.lt(ops.add(ops.mul(dx, dx), ops.mul(dy, dy)), ops.const(90_000)),
        ops.eq(ops.mod(dx, ops.const(7)), ops.const(-3)),
        ops.lt(ops.const(0), ops.bit_or(ops.bit_xor(s[0], w[1]), ops.const(255))),
        ops.le(ops.least(*s, *w), ops.bit_not(ops.shl(w[0], few))),
        ops.lt(ops.shr(w[1], few), ops.greatest(s[0], ops.neg(w[0]), s[1])),
        ops.eq(ops.case([(ops.lt(*w), w[0])], ops.const(5)), ops.neg(s[1])),
    ]
    predicate = ops.and_(ops.not_(ops.key("w", 2, flag)), ops.or_(*parts))
    value = ops.add(ops.absolute(dx), ops.absolute(dy))
    return GeneralProgram((number, number), (number, number, flag), predicate, value)
