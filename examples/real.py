"""The examples' streams from recorded ones, in the folder that PENSTOCK_DATA names.

The functions give the columns that those of :mod:`generated` give, and are named alike.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq


def orders_vehicles(folder: Path) -> dict[str, pa.Table]:
    """New York, 1-15 April 2014: orders of one ride company, and where those of another began."""
    rides = pq.read_table(folder / "uber.parquet", columns=["id", "t_s", "x_m", "y_m", "base"])
    return {
        name: rides.filter(pc.field("base") == base).drop_columns(["base"])
        for name, base in (("orders", 1), ("vehicles", 3))
    }


def aircraft(folder: Path) -> dict[str, pa.Table]:
    """Half an hour around Paris, as aircraft broadcast it."""
    names = ["id", "t_s", "icao24", "x_m", "y_m", "alt_ft"]
    table = pq.read_table(folder / "adsb.parquet")
    table = table.filter(~pc.field("onground") & pc.field("alt_ft").is_valid()).select(names)
    begin = table["t_s"].to_numpy().min()
    return {"aircraft": table.filter(pc.field("t_s") < begin + 1800)}


def quotes(folder: Path) -> dict[str, pa.Table]:
    """EUR/USD at two venues, the first two days of a week."""
    found = {}
    for name, venue in (("venue_a", "fxcm"), ("venue_b", "oanda")):
        table = pq.read_table(folder / f"fx_eurusd_{venue}.parquet")
        found[name] = table.filter(pc.field("t_ms") < 2 * 86_400_000)
    return found


def dns_tls(folder: Path) -> dict[str, pa.Table]:
    """Ten minutes of one network, in the order in which its logs were written."""
    wanted = {
        "dns": ["id", "t_us", "orig_ip", "answer_ip"],
        "tls": ["id", "t_us", "orig_ip", "resp_ip", "server_name"],
    }
    found = {}
    for name, columns in wanted.items():
        table = pq.read_table(folder / f"zeek_{'ssl' if name == 'tls' else 'dns'}.parquet")
        found[name] = table.sort_by("log_pos").select(columns)
    return found
