"""Workloads: same seed same bytes, rates, disorder, skew, and shapes that look like the source."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from datetime import UTC, datetime
from itertools import pairwise

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import FileError, UsageError
from penstock.sim.workloads import Attack, Backbone, Calls, City
from penstock.sim.workloads.backbone import SHORT_NAMES
from penstock.sim.workloads.city import BLOCK, CENTRE_LAT, CENTRE_LON, SPEED
from penstock.sim.workloads.draws import draw, zipf_cdf
from penstock.sim.workloads.workload import TIMESTAMP, Workload
from tests.kit.effort import examples

US = 1_000_000

#: Small enough for a test, long enough for several slots of each stream.
CITY = City(seconds=150, order_rate=40, gps_rate=600, vehicles=400, disorder_s=2)
BACKBONE = Backbone(seconds=21, rate=4000, hosts=5000, disorder_s=0.5)
ATTACK = Attack(seconds=40, rate=4000, ports=3000, share=0.2, disorder_s=0.5)

STREAMS = [
    pytest.param(work, name, id=f"{type(work).__name__}-{name}")
    for work in (CITY, BACKBONE, ATTACK)
    for name in work.schemas
]


def times_us(table: pa.Table) -> np.ndarray:
    return table["ts"].cast("int64").to_numpy()


def ints(table: pa.Table, column: str) -> np.ndarray:
    return table[column].to_numpy().astype(np.int64)


# Arguments


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: City(seconds=0), "seconds must be 0.001 to 1e+09 s, not 0"),
        (lambda: City(seconds=float("nan")), "seconds must be"),
        (lambda: City(disorder_s=-1), "disorder_s must be 0 to 3600 s, not -1"),
        (lambda: City(order_rate=0), "order_rate must be"),
        (lambda: City(vehicles=0), "vehicles must be"),
        (lambda: City(vehicles=10**6, gps_rate=1), "raise gps_rate or lower vehicles"),
        (lambda: City(radius=10), "radius must be 1000 to 3e"),
        (lambda: City(seed=-1), "seed must be"),
        (lambda: Backbone(rate=-1), "rate must be"),
        (lambda: Backbone(hosts=1), "hosts must be"),
        (lambda: Attack(port=1 << 16), "port must be 0 to 65535, not 65536"),
        (lambda: Attack(begin=0.9), "begin must not be after end (0.75), not 0.9"),
        (lambda: Backbone(overlap=1.5), "overlap must be 0 to 1, not 1.5"),
        (lambda: Backbone(names=("ts", "dst")), "names must be two columns"),
        (lambda: next(City().batches("taxis")), "City has no stream 'taxis'; it has orders, gps"),
        (lambda: next(City().batches("gps", rows=0)), "rows must be"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(UsageError) as caught:
        make()
    assert message in str(caught.value)


# Determinism


@pytest.mark.parametrize(("work", "name"), STREAMS)
def test_same_seed_same_table(work: Workload, name: str):
    again = type(work)(**{f: getattr(work, f) for f in work.__dataclass_fields__})
    assert again.table(name).equals(work.table(name))


@pytest.mark.parametrize(("work", "name"), STREAMS)
def test_another_seed_another_table(work: Workload, name: str):
    fields = {f: getattr(work, f) for f in work.__dataclass_fields__}
    other = type(work)(**{**fields, "seed": work.seed + 1})
    assert not other.table(name).equals(work.table(name))


@pytest.mark.parametrize(("work", "name"), STREAMS)
@pytest.mark.parametrize("rows", [997, 5000, 1 << 20])
def test_batches_are_cuts_of_the_table(work: Workload, name: str, rows: int):
    batches = list(work.batches(name, rows=rows))
    assert all(batch.num_rows == rows for batch in batches[:-1])
    assert 0 < batches[-1].num_rows <= rows
    assert pa.Table.from_batches(batches).equals(work.table(name))


def test_streams_do_not_depend_on_the_order_they_are_read():
    first = City(seconds=60, gps_rate=200, vehicles=300)
    second = City(seconds=60, gps_rate=200, vehicles=300)
    orders, gps = first.table("orders"), first.table("gps")
    assert second.table("gps").equals(gps)
    assert second.table("orders").equals(orders)


def test_a_batch_is_there_before_the_stream_ends():
    endless = Backbone(seconds=1e6, rate=1e5)
    batch = next(endless.batches("r", rows=1000))
    assert batch.num_rows == 1000


def peak_bytes(work: Workload, stream: str) -> int:
    tracemalloc.start()
    try:
        for _ in work.batches(stream, rows=10_000):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("make", "stream"),
    [(lambda s: City(seconds=s * 30), "gps"), (lambda s: Backbone(seconds=s), "r")],
)
def test_memory_does_not_grow_with_the_length(make, stream: str):
    assert peak_bytes(make(100), stream) < 1.3 * peak_bytes(make(25), stream)


# Rates and time


@pytest.mark.parametrize(("work", "name"), STREAMS)
def test_rate(work: Workload, name: str):
    expected = work.rate_of(name) * work.seconds
    # Six standard deviations of a Poisson count; positions are closer, as they are periodic.
    assert abs(work.table(name).num_rows - expected) < 6 * expected**0.5


@pytest.mark.parametrize(("work", "name"), STREAMS)
def test_disorder_is_bounded_and_used(work: Workload, name: str):
    ts = times_us(work.table(name))
    behind = np.maximum.accumulate(ts) - ts
    bound = round(work.disorder_s * US)
    assert behind.max() <= bound
    assert behind.max() > 0.8 * bound


@pytest.mark.parametrize(
    "work", [City(seconds=90, disorder_s=0), Backbone(seconds=9, disorder_s=0)]
)
def test_no_disorder_means_sorted(work: Workload):
    for table in work.tables().values():
        assert (np.diff(times_us(table)) >= 0).all()


@pytest.mark.parametrize(("work", "name"), STREAMS)
def test_ids_count_arrivals_and_times_stay_in_the_run(work: Workload, name: str):
    table = work.table(name)
    assert table.schema == work.schemas[name]
    assert table["ts"].type == TIMESTAMP
    assert (table["id"].to_numpy() == np.arange(table.num_rows)).all()
    ts = times_us(table) - round(work.start.timestamp() * US)
    assert ts.min() >= 0
    assert ts.max() < work.seconds * US
    assert all(column.null_count == 0 for column in table.columns)


def test_start_without_a_zone_is_utc():
    naive = City(seconds=5, start=datetime(2026, 5, 1, 12))
    aware = City(seconds=5, start=datetime(2026, 5, 1, 12, tzinfo=UTC))
    assert naive.table("gps").equals(aware.table("gps"))


def test_orders_follow_the_hour_and_keep_their_mean():
    night = datetime(2026, 3, 2, tzinfo=UTC)
    day = City(seconds=86_400, order_rate=1, start=night, disorder_s=0)
    ts = times_us(day.table("orders")) - round(night.timestamp() * US)
    by_hour = np.bincount(ts // (3600 * US), minlength=24)
    assert by_hour[18] > 5 * by_hour[4]
    assert abs(by_hour.sum() - 86_400) < 6 * 86_400**0.5
    flat = City(seconds=86_400, order_rate=1, start=night, disorder_s=0, hourly=False)
    ts = times_us(flat.table("orders")) - round(night.timestamp() * US)
    by_hour = np.bincount(ts // (3600 * US), minlength=24)
    assert by_hour.max() < 1.2 * by_hour.min()


@settings(max_examples=examples(25), deadline=None)
@given(
    seconds=st.floats(0.01, 30),
    rate=st.floats(1, 2000),
    vehicles=st.integers(1, 500),
    radius=st.integers(1000, 50_000),
    districts=st.integers(0, 5),
    disorder=st.floats(0, 10),
    seed=st.integers(0, 2**63 - 1),
)
def test_city_ranges(seconds, rate, vehicles, radius, districts, disorder, seed):
    city = City(
        seconds=seconds,
        order_rate=rate,
        gps_rate=rate,
        vehicles=vehicles,
        radius=radius,
        districts=districts,
        disorder_s=disorder,
        seed=seed,
    )
    for name, table in city.tables().items():
        assert table.schema == city.schemas[name]
        assert (np.abs(ints(table, "lon") - CENTRE_LON) <= radius).all()
        assert (np.abs(ints(table, "lat") - CENTRE_LAT) <= radius).all()
        ts = times_us(table)
        assert ((np.maximum.accumulate(ts) - ts) <= round(disorder * US)).all()
    gps = city.table("gps")
    assert ((ints(gps, "vehicle") >= 0) & (ints(gps, "vehicle") < vehicles)).all()


@settings(max_examples=examples(25), deadline=None)
@given(
    seconds=st.floats(0.01, 25),
    rate=st.floats(1, 3000),
    hosts=st.integers(2, 3000),
    skew=st.floats(0, 3),
    overlap=st.floats(0, 1),
    seed=st.integers(0, 2**63 - 1),
)
def test_backbone_ranges(seconds, rate, hosts, skew, overlap, seed):
    work = Backbone(seconds=seconds, rate=rate, hosts=hosts, skew=skew, overlap=overlap, seed=seed)
    for table in work.tables().values():
        for name in work.names:
            first = ints(table, name) >> 24
            assert not np.isin(first, [0, 10, 127]).any()
            assert (first < 224).all()
            assert not np.isin(ints(table, name) & 255, [0, 255]).any()
        assert len(np.unique(np.concatenate([ints(table, n) for n in work.names]))) <= hosts
        assert np.isin(ints(table, "protocol"), [6, 17]).all()
        assert ((ints(table, "length") >= 40) & (ints(table, "length") <= 1500)).all()


# Shape: city


def cells(table: pa.Table, side: int) -> np.ndarray:
    """Rows by square cell of ``side`` steps, most first."""
    key = (ints(table, "lon") // side << 32) + ints(table, "lat") // side
    return np.sort(np.unique(key, return_counts=True)[1])[::-1]


def test_orders_have_hot_spots():
    hot = cells(City(seconds=600, order_rate=20).table("orders"), 1000)
    even = cells(City(seconds=600, order_rate=20, districts=0).table("orders"), 1000)
    top = 20
    assert hot[:top].sum() > 0.3 * hot.sum()
    assert even[:top].sum() < 0.06 * even.sum()


def test_vehicles_keep_to_the_streets():
    gps = CITY.table("gps")
    x = (ints(gps, "lon") - CENTRE_LON) % BLOCK
    y = (ints(gps, "lat") - CENTRE_LAT) % BLOCK
    off = np.minimum(np.minimum(x, BLOCK - x), np.minimum(y, BLOCK - y))
    assert (off <= 20).mean() > 0.999  # five standard deviations of the receiver's noise


def test_vehicles_move_like_cars():
    city = City(seconds=1200, gps_rate=100, vehicles=200, disorder_s=0)
    rows = city.table("gps").sort_by([("vehicle", "ascending"), ("ts", "ascending")])
    same = np.diff(ints(rows, "vehicle")) == 0
    way = np.abs(np.diff(ints(rows, "lon"))) + np.abs(np.diff(ints(rows, "lat")))
    seconds = np.diff(times_us(rows)) / US
    assert same.sum() > 100_000
    # The noise of two fixes on two axes is at most about 40 steps.
    fastest = max(SPEED[1], 4 * city.radius / (0.95 * 1800))
    assert (way[same] <= fastest * seconds[same] + 40).all()
    moving = way[same] > 40 / 2
    assert 0.02 < moving.mean() < 0.98
    # Reports come at a steady pace: no vehicle is silent for longer than its interval.
    assert seconds[same].max() < 2 * 200 / 100


def test_vehicles_cross_slots_and_trips_without_a_jump():
    city = City(seconds=7200, gps_rate=20, vehicles=20, disorder_s=0)
    rows = city.table("gps").sort_by([("vehicle", "ascending"), ("ts", "ascending")])
    same = np.diff(ints(rows, "vehicle")) == 0
    way = np.abs(np.diff(ints(rows, "lon"))) + np.abs(np.diff(ints(rows, "lat")))
    assert way[same].max() < 50 * 2 + 40


# Shape: backbone


def agreeing(left: np.ndarray, right: np.ndarray, bits: int) -> float:
    """Share of all pairs whose addresses agree but for the last ``bits`` bits."""
    one, many = (
        dict(zip(*np.unique(x >> bits, return_counts=True), strict=True)) for x in (left, right)
    )
    return sum(int(n) * int(many.get(key, 0)) for key, n in one.items()) / len(left) / len(right)


@pytest.mark.parametrize("column", [0, 1])
def test_shorter_prefixes_agree_more(column: int):
    work = Backbone(seconds=20, rate=5000)
    name = work.names[column]
    r, s = ints(work.table("r"), name), ints(work.table("s"), name)
    shares = [agreeing(r, s, bits) for bits in (0, 8, 16, 24)]
    assert all(b > 1.2 * a for a, b in pairwise(shares))
    uniform = 2.0**-16
    assert shares[2] > 50 * uniform


def test_skew_is_what_was_asked_for():
    def top_share(skew: float) -> float:
        table = Backbone(seconds=10, rate=5000, skew=skew).table("r")
        counts = np.sort(np.unique(ints(table, "sourceIP"), return_counts=True)[1])[::-1]
        return counts[:100].sum() / counts.sum()

    even, some, strong = top_share(0), top_share(0.8), top_share(1.3)
    assert even < 0.06
    assert some > 3 * even
    assert strong > 1.5 * some


def test_overlap_is_traffic_seen_at_both_points():
    def shared(overlap: float) -> float:
        work = Backbone(seconds=10, rate=5000, overlap=overlap)
        keys = []
        for table in work.tables().values():
            columns = [ints(table, c) for c in (*work.names, "sport", "dport", "protocol")]
            keys.append(set(zip(*(c.tolist() for c in columns), strict=True)))
        return len(keys[0] & keys[1]) / len(keys[0])

    assert shared(0) == 0
    assert shared(0.9) > 0.5


def test_zipf_ranks():
    rng = np.random.default_rng(3)
    counts = np.bincount(draw(rng, zipf_cdf(1000, 1.0), 1_000_000), minlength=1000)
    assert len(counts) == 1000
    # Rank 0 is drawn ten times as often as rank 9.
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.05)


# Queries and files


def duck(sql: str, **tables: pa.Table) -> int:
    """Rows of a query of Spark's dialect in DuckDB."""
    (translated,) = sqlglot.transpile(sql, read="spark", write="duckdb")
    with duckdb.connect() as db:
        for name, table in tables.items():
            db.register(name, table)
        return len(db.sql(translated).fetchall())


def test_city_query_finds_pairs():
    city = City(seconds=60, order_rate=5, gps_rate=50, vehicles=100)
    found = duck(city.query(2000, window_s=20), **city.tables())
    o, g = city.table("orders"), city.table("gps")
    near = sum(np.abs(ints(o, axis)[:, None] - ints(g, axis)[None, :]) for axis in ("lon", "lat"))
    late = np.abs(times_us(o)[:, None] - times_us(g)[None, :])
    assert found == ((near < 2000) & (late <= 20 * US)).sum()
    assert found > 0


@pytest.mark.parametrize("names", [("sourceIP", "destinationIP"), SHORT_NAMES])
def test_backbone_query_finds_pairs(names):
    work = Backbone(seconds=4, rate=200, hosts=500, names=names)
    r, s = work.table("r"), work.table("s")
    src, dst = (ints(r, n)[:, None] ^ ints(s, n)[None, :] for n in names)
    late = np.abs(times_us(r)[:, None] - times_us(s)[None, :])
    expected = (((src < 300) | (dst < 300)) & (late <= US)).sum()
    assert duck(work.query(300, window_s=1), r=r, s=s) == expected
    assert expected > 0


def test_write(tmp_path):
    files = CITY.write(tmp_path / "new" / "city", rows=10_000)
    assert sorted(path.name for path in (tmp_path / "new" / "city").iterdir()) == [
        "gps.parquet",
        "orders.parquet",
        "query.sql",
    ]
    for name, file in files.items():
        assert pq.read_table(file).equals(CITY.table(name))
    assert pq.ParquetFile(files["gps"]).metadata.num_row_groups == 9
    assert (tmp_path / "new" / "city" / "query.sql").read_text() == CITY.query() + "\n"
    once = {name: file.read_bytes() for name, file in files.items()}
    again = CITY.write(tmp_path / "again", rows=10_000)
    assert {name: file.read_bytes() for name, file in again.items()} == once


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    files = BACKBONE.write(tmp_path)
    before = files["r"].read_bytes()
    whole = Workload.batches

    def fails(self, stream, *, rows):
        yield next(whole(self, stream, rows=rows))
        raise OSError("disk full")

    monkeypatch.setattr(Workload, "batches", fails)
    with pytest.raises(FileError, match="disk full; choose another folder"):
        Backbone(seconds=9, seed=5).write(tmp_path)
    assert files["r"].read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["query.sql", "r.parquet", "s.parquet"]


def test_reader_feeds_other_libraries():
    with duckdb.connect() as db:
        db.register("gps", CITY.reader("gps"))
        (counted,) = db.sql("SELECT count(*), max(lon) FROM gps").fetchall()
    table = CITY.table("gps")
    assert counted == (table.num_rows, pc.max(table["lon"]).as_py())


# Attack


def test_attack_lasts_as_long_as_it_should():
    for name in ("tsukuba", "uec"):
        table = ATTACK.table(name)
        since = (times_us(table) - times_us(table).min()) / US / ATTACK.seconds
        hits = ints(table, "dstport") == ATTACK.port
        during = (since > 0.26) & (since < 0.74)
        assert hits[during].mean() == pytest.approx(ATTACK.share, rel=0.1)
        assert hits[(since < 0.24) | (since > 0.76)].mean() < 0.01
        assert (ints(table, "length")[hits & during] == 40).mean() > 0.9


def test_attack_ports_are_popular_at_both_sites():
    counts = [
        np.bincount(ints(ATTACK.table(name), "dstport"), minlength=1 << 16)
        for name in ("tsukuba", "uec")
    ]
    for count in counts:
        count[ATTACK.port] = 0
        assert np.count_nonzero(count) <= ATTACK.ports
    popular = [set(np.argsort(count)[-20:]) for count in counts]
    assert len(popular[0] & popular[1]) >= 10


def test_attack_query_finds_pairs():
    work = Attack(seconds=1, rate=2000)
    counts = [
        np.bincount(ints(table, "dstport"), minlength=1 << 16) for table in work.tables().values()
    ]
    assert duck(work.query(), **work.tables()) == int(counts[0] @ counts[1])
    assert (counts[0] * counts[1]).argmax() == work.port


def cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock.sim.workloads", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_command_line(tmp_path):
    done = cli("city", "--out", str(tmp_path), "--seconds", "20", "--rate", "100",
               "--order-rate", "3", "--vehicles", "50", "--seed", "7")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "abs(o.lon - g.lon)" in done.stdout
    city = City(seconds=20, gps_rate=100, order_rate=3, vehicles=50, seed=7)
    assert pq.read_table(tmp_path / "gps.parquet").equals(city.table("gps"))
    done = cli("backbone", "--out", str(tmp_path), "--seconds", "2", "--short-names")
    assert done.returncode == 0, done.stderr
    assert {"src", "dst"} <= set(pq.read_schema(tmp_path / "r.parquet").names)
    done = cli("attack", "--out", str(tmp_path), "--seconds", "2", "--rate", "500")
    assert done.returncode == 0, done.stderr
    assert pq.read_table(tmp_path / "uec.parquet").equals(Attack(seconds=2, rate=500).table("uec"))


def test_command_line_errors_are_one_line(tmp_path):
    done = cli("city", "--out", str(tmp_path), "--seconds", "-1")
    assert done.returncode == UsageError.exit_code
    assert done.stderr.strip() == "error: seconds must be 0.001 to 1e+09 s, not -1.0"


# Calls


def test_calls_follow_zipf_and_find_their_subscribers():
    work = Calls(seconds=20, rate=5000, subscribers=100_000, exponent=1.0, absent=0.25)
    calls, subscribers = work.table("calls"), work.table("subscribers")
    assert subscribers["id"].to_pylist()[-1] == 99_999
    assert all(len(name) == 64 for name in subscribers["name"].to_pylist()[:10])
    callers = ints(calls, "subscriber")
    known = callers[callers >= 0]
    assert abs(len(known) / len(callers) - 0.75) < 0.01
    counts = np.sort(np.unique(known, return_counts=True)[1])[::-1]
    total = (1 / np.arange(1, 100_001)).sum()
    assert abs(counts[0] / len(known) * total - 1) < 0.1
    expected = (1 / np.arange(1, 1001)).sum() / total
    assert abs(counts[:1000].sum() / len(known) - expected) < 0.02


def test_calls_drift_changes_the_share_of_ranks_that_it_says():
    work = Calls(seconds=20, rate=5000, subscribers=50_000, drift=0.5, drift_s=10, exponent=1.5)
    calls = work.table("calls")
    callers, era = ints(calls, "subscriber"), times_us(calls) >= times_us(calls)[0] + 10 * US
    first, second = (set(np.unique(callers[era == side])) for side in (False, True))
    top = [c for c in np.argsort(-np.bincount(callers[~era]))[:200] if c in first]
    kept = sum(c in second for c in top) / len(top)
    assert 0.35 < kept < 0.75
