"""Streams for the examples, made up: the same rows each time, shaped like the real ones.

Each function gives the two streams of an example, by name, in the order of their arrival.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.sim.workloads import NB7, Calls, City

#: Metres in one step of 1e-5 degree.
_STEP_M = 1.11


def orders_vehicles() -> dict[str, pa.Table]:
    """An hour of ride orders and of vehicles' positions in a city of about 33 km."""
    city = City(seconds=3600, order_rate=2.0, gps_rate=60.0, vehicles=600, seed=7)
    tables = {}
    for name, table in city.tables().items():
        seconds = table["ts"].cast(pa.int64()).to_numpy() // 1_000_000
        middle = {axis: int(np.median(table[axis].to_numpy())) for axis in ("lon", "lat")}
        columns = {
            "id": table["id"].cast(pa.int32()),
            "t_s": pa.array((seconds - seconds.min()).astype(np.int32)),
            **{
                new: pa.array(((table[old].to_numpy() - middle[old]) * _STEP_M).astype(np.int32))
                for new, old in (("x_m", "lon"), ("y_m", "lat"))
            },
        }
        tables[{"orders": "orders", "gps": "vehicles"}[name]] = pa.table(columns)
    return tables


def two_files() -> dict[str, pa.Table]:
    """Ten minutes of ride orders and of positions in a city, as `penstock demo` has them."""
    return City(seconds=600, order_rate=5.0, gps_rate=100.0, seed=2).tables()


def nearest() -> dict[str, pa.Table]:
    """Those orders and vehicles, and 40 taxi stands, where orders come from."""
    tables = orders_vehicles()
    at = np.random.default_rng(5).choice(tables["orders"].num_rows, 40, replace=False)
    places = tables["orders"].select(["x_m", "y_m"]).take(pa.array(at))
    return tables | {"stands": places.append_column("stand", pa.array(np.arange(40, dtype="i4")))}


def intervals() -> dict[str, pa.Table]:
    """200,000 reads of 150 bases, most of them near genes, and 20,000 genes on 22 chromosomes."""
    rng = np.random.default_rng(3)
    genes, reads = 20_000, 200_000
    chrom = np.sort(rng.integers(1, 23, genes)).astype(np.int32)
    ends = 250_000_000 - 9_000_000 * chrom.astype(np.int64)
    # Genes lie in clusters, and their lengths are far apart.
    start = (rng.beta(0.7, 1.1, genes) * ends).astype(np.int64)
    length = np.clip(np.exp(rng.normal(9.8, 1.5, genes)), 300, 1_200_000).astype(np.int64)
    of = rng.choice(genes, reads, p=length / length.sum())
    on = start[of] + (rng.uniform(-0.3, 1.3, reads) * length[of]).astype(np.int64)
    begin = np.clip(on, 0, None)
    return {
        "reads": pa.table(
            {
                "id": pa.array(np.arange(reads, dtype=np.int32)),
                "chrom": pa.array(chrom[of]),
                "start": pa.array(begin),
                "stop": pa.array(begin + 150),
            }
        ),
        "genes": pa.table(
            {
                "gene": pa.array(np.arange(genes, dtype=np.int32)),
                "chrom": pa.array(chrom),
                "start": pa.array(start),
                "stop": pa.array(start + length),
            }
        ),
    }


def aircraft() -> dict[str, pa.Table]:
    """Half an hour of aircraft around an airport, each telling its place once a second.

    Most cross the area at a cruising level of their own direction; others come down to the airport
    or climb from it.
    """
    rng = np.random.default_rng(11)
    parts = []
    for number in range(70):
        begin = int(rng.integers(-900, 1700))
        t = np.arange(max(begin, 0), min(begin + 1100, 1800))
        if not len(t):
            continue
        speed = rng.uniform(190, 250)  # m/s
        course = rng.uniform(0, 2 * np.pi)
        along = (t - begin - 550) * speed
        kind = number % 3
        if kind == 0:  # through the area, past the airport
            offset = rng.uniform(-60_000, 60_000)
            # Levels of 2,000 ft; one direction of flight has the even ones.
            level = 31_000 + 2000 * int(rng.integers(0, 5)) + 1000 * (course > np.pi)
            altitude = np.full(len(t), level)
        else:  # to the airport, or from it
            flying = along < 0 if kind == 1 else along > 0
            t, along = t[flying], along[flying]
            offset = rng.uniform(-4_000, 4_000)
            along = along * 0.7
            altitude = np.minimum(2000 + np.abs(along) * 0.17, 34_000)
        wobble = np.cumsum(rng.normal(0, 4, len(t)))
        parts.append(
            {
                "t_s": t,
                "icao24": np.full(len(t), 0x380000 + 977 * number),
                "x_m": along * np.sin(course) + (offset + wobble) * np.cos(course),
                "y_m": along * np.cos(course) - (offset + wobble) * np.sin(course),
                "alt_ft": np.round(altitude / 25) * 25,
            }
        )
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.lexsort((columns["icao24"], columns["t_s"]))
    made = {name: pa.array(values[order].astype(np.int32)) for name, values in columns.items()}
    return {"aircraft": pa.table({"id": pa.array(np.arange(len(order), dtype=np.int32)), **made})}


def quotes() -> dict[str, pa.Table]:
    """Four hours of quotes for one pair of currencies at two venues, prices times 100,000.

    Both follow one price, the second one 350 ms behind; the price moves in bursts, and then the
    second venue's quotes are the old ones for a moment.
    """
    rng = np.random.default_rng(5)
    ms = 4 * 3_600_000
    steps = rng.normal(0, 1, ms // 20)
    # Bursts: 20 ms steps are larger for some seconds after each of some 40 news.
    size = np.full(len(steps), 0.12)
    for at in rng.integers(0, len(steps) - 500, 40):
        size[at : at + 500] += 3.5 * np.exp(-np.arange(500) / 120)
    price = 113_000 + np.cumsum(steps * size)
    tables = {}
    for name, rate, lag, spread in (("venue_a", 6.0, 0, 6.0), ("venue_b", 3.0, 350, 8.0)):
        t = np.sort(rng.integers(1000, ms, int(rate * ms / 1000)))
        middle = price[np.minimum((t - lag) // 20, len(price) - 1)] + rng.normal(0, 0.6, len(t))
        half = spread / 2 + rng.exponential(0.8, len(t))
        columns = {"t_ms": t, "bid_e5": np.round(middle - half), "ask_e5": np.round(middle + half)}
        tables[name] = pa.table(
            {
                "id": pa.array(np.arange(len(t), dtype=np.int32)),
                **{key: pa.array(values.astype(np.int32)) for key, values in columns.items()},
            }
        )
    return tables


def dns_tls() -> dict[str, pa.Table]:
    """Ten minutes of answers to names, and of the connections that follow; as two logs.

    A connection is logged when it ends, an answer when it comes, some of both much later. One
    client in forty connects to addresses that it never asked for.
    """
    rng = np.random.default_rng(3)
    count, servers = 9000, 400
    share = 1 / np.arange(1, servers + 1) ** 0.9
    server = rng.choice(servers, count, p=share / share.sum())
    address = (93 << 24) + 1_048_573 * (1 + np.arange(servers)) % (1 << 24)
    client = (10 << 24) + 1 + rng.zipf(1.6, count) % 200
    asked = np.sort(rng.integers(0, 600_000_000, count))
    delay = np.minimum(rng.lognormal(np.log(30_000), 1.4, count), 50_000_000).astype(np.int64)
    silent = client % 40 == 13
    opened = asked + delay
    logged = {
        "dns": asked + rng.exponential(200_000, count) * (rng.random(count) < 0.2),
        "tls": opened + rng.exponential(9_000_000, count),
    }
    columns = {
        "dns": {"t_us": asked, "orig_ip": client, "answer_ip": address[server]},
        "tls": {"t_us": opened, "orig_ip": client, "resp_ip": address[server]},
    }
    tables = {}
    for name, own in columns.items():
        rows = np.flatnonzero(~silent) if name == "dns" else np.arange(count)
        rows = rows[np.argsort(logged[name][rows], kind="stable")]
        named = {} if name == "dns" else {
            "server_name": pa.array([f"host{k:03}.example" for k in server[rows]])
        }  # fmt: skip
        tables[name] = pa.table(
            {
                "id": pa.array(np.arange(len(rows), dtype=np.int32)),
                **{key: pa.array(values[rows].astype(np.int64)) for key, values in own.items()},
                **named,
            }
        )
    return tables


def calls() -> dict[str, pa.Table]:
    """80,000 calls, few subscribers making most of them, and the tariffs of 100,000 subscribers.

    One call in fifty comes from a number that has no tariff.
    """
    work = Calls(seconds=20.0, rate=4000.0, subscribers=100_000, absent=0.02, seed=2)
    tables = work.tables()
    made = tables["calls"].slice(0, 80_000).select(["id", "subscriber", "seconds"])
    ids = tables["subscribers"]["id"].to_numpy()
    columns = {
        "subscriber": ids,
        "cents": (4 + ids % 7).astype(np.int16),
        "free_s": np.where(ids % 5 == 0, 60, 0).astype(np.int16),
        "edition": np.zeros(len(ids), np.int16),
    }
    tariffs = pa.table({**columns, "name": tables["subscribers"]["name"]})
    return {"calls": made, "tariffs": tariffs}


def bids() -> dict[str, pa.Table]:
    """Ten minutes of bids at 20,000 auctions, most of them at few; some come 2 s late."""
    work = NB7(seconds=600.0, rate=500.0, auctions=20_000, bidders=5_000, disorder_s=2.0, seed=4)
    return work.tables()


def lightning() -> dict[str, pa.Table]:
    """Half an hour of a thunderstorm that crosses a grid of substations, and their voltage dips.

    A stroke disturbs what is within its reach, which grows with its current, after some ms; other
    dips have causes of their own.
    """
    rng = np.random.default_rng(8)
    count, seconds = 4000, 1800
    t_us = np.sort(rng.integers(0, seconds * 1_000_000, count))
    # The storm moves from the south-west to the north-east.
    x = 5_000 + t_us / 1e6 * 25 + rng.normal(0, 6_000, count)
    y = 10_000 + t_us / 1e6 * 15 + rng.normal(0, 5_000, count)
    reach = np.minimum(400 + 45 * rng.lognormal(np.log(20), 0.7, count), 6_000)
    stations = rng.integers(2_000, 58_000, (60, 2))
    away = np.hypot(x[:, None] - stations[:, 0], y[:, None] - stations[:, 1])
    stroke, hit = np.nonzero(away < reach[:, None])
    others = 150
    station = np.concatenate([hit, rng.integers(0, len(stations), others)])
    after = rng.integers(2_000, 400_000, len(hit))
    dip_us = np.concatenate([t_us[stroke] + after, rng.integers(0, seconds * 1_000_000, others)])
    order = np.argsort(dip_us, kind="stable")
    place = stations[station[order]]
    columns = {
        "strokes": {"t": t_us, "x_m": x, "y_m": y, "reach_m": reach},
        "dips": {"t": dip_us[order], "x_m": place[:, 0], "y_m": place[:, 1]},
    }
    begin = 1_782_000_000_000_000  # an evening in June
    tables = {}
    for name, own in columns.items():
        times = pa.array(begin + own.pop("t")).cast(pa.timestamp("us", "UTC"))
        numbers = {key: pa.array(values.astype(np.int32)) for key, values in own.items()}
        ids = pa.array(np.arange(len(times), dtype=np.int32))
        tables[name] = pa.table({"id": ids, "t": times, **numbers})
    return tables
