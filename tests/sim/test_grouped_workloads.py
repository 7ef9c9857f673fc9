"""Workloads to group: YSB's events and NB7's bids, their records, shares, shapes and files."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import penstock
from penstock.errors import UsageError
from penstock.host.relation import RelationOptions, build
from penstock.sim.workloads import Ads, Bids
from penstock.sim.workloads.ads import FORMATS, KINDS
from penstock.sim.workloads.base import TIMESTAMP_MS, Workload, spreading_step
from penstock.sim.workloads.cli import app

#: Several slots of either.
ADS = Ads(seconds=20, rate=10_000, ads=50_000)
BIDS = Bids(seconds=20, rate=10_000, auctions=20_000, bidders=1000)
STREAMS = [pytest.param(ADS, "ads", id="ads"), pytest.param(BIDS, "bids", id="bids")]


def times_ms(table: pa.Table) -> np.ndarray:
    return table["t"].cast("int64").to_numpy()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ads(rate=0), "rate must be 0.001 to 1e+09 rows/s, not 0"),
        (lambda: Ads(ads=0), "ads must be 1 to"),
        (lambda: Ads(seed=-1), "seed must be"),
        (lambda: Bids(auctions=0), "auctions must be 1 to"),
        (lambda: Bids(bidders=0), "bidders must be 1 to"),
        (lambda: Bids(shape=1), "shape must be 1.01 to 100, not 1"),
        (lambda: Bids(shape=float("nan")), "shape must be"),
        (lambda: next(Ads().batches("bids")), "Ads has no stream 'bids'; it has ads, campaigns"),
    ],
)
def test_bad_arguments(make, message: str):
    with pytest.raises(UsageError) as caught:
        make()
    assert message in str(caught.value)


@pytest.mark.parametrize(("work", "name"), STREAMS)
def test_the_seed_alone_decides(work: Workload, name: str):
    table = work.table(name)
    assert replace(work).table(name).equals(table)
    assert not replace(work, seed=2).table(name).equals(table)
    batches = list(work.batches(name, rows=997))
    assert all(batch.num_rows == 997 for batch in batches[:-1])
    assert pa.Table.from_batches(batches).equals(table)


@pytest.mark.parametrize(("work", "name"), STREAMS)
def test_times_are_even(work: Workload, name: str):
    table = work.table(name)
    assert table.schema == work.schemas[name]
    assert table["t"].type == TIMESTAMP_MS
    since = times_ms(table) - round(work.start.timestamp() * 1000)
    assert (since == np.arange(200_000) // 10).all()
    # However long a slot and however odd the rate, no row is missing or doubled.
    odd = replace(work, seconds=50, rate=6001.7)
    assert odd.table(name).num_rows == np.ceil(50 * 6001.7)
    late = times_ms(replace(work, disorder_s=0.5).table(name))
    behind = np.maximum.accumulate(late) - late
    assert 400 < behind.max() <= 500


@pytest.mark.parametrize(("schema", "size"), [("ads", 78), ("bids", 32)])
def test_records_have_the_papers_sizes(schema: str, size: int):
    fields = {**ADS.schemas, **BIDS.schemas}[schema]
    assert sum(field.type.bit_width for field in fields) == 8 * size


def test_a_third_are_views_and_ads_are_uniform():
    table = ADS.table("ads")
    for number, name, names in (("kind", "kind_name", KINDS), ("format", "format_name", FORMATS)):
        counts = np.bincount(table[number].to_numpy())
        assert abs(counts / len(table) * len(names) - 1).max() < 0.03
        texts = [text.rstrip(b"\0").decode() for text in table[name].to_pylist()[:1000]]
        assert texts == [names[k] for k in table[number].to_pylist()[:1000]]
    per_ad = np.bincount(table["ad"].to_numpy(), minlength=ADS.ads)
    assert len(per_ad) == ADS.ads
    # Poisson, of 4 events an advertisement.
    assert per_ad.mean() == 4
    assert per_ad.var() == pytest.approx(4, rel=0.05)
    assert len(set(table["user"].to_pylist())) == len(table)


def test_each_ad_has_a_campaign():
    campaigns = Ads(ads=1000).table("campaigns")
    assert campaigns["ad"].to_pylist() == list(range(1000))
    counts = np.bincount(campaigns["campaign"].to_numpy())
    assert counts.tolist() == [10] * 100


@pytest.mark.parametrize("shape", [1.16, 1.5, 4.0])
def test_bids_follow_their_shape(shape: float):
    work = replace(BIDS, shape=shape)
    auction = work.table("bids")["auction"].to_numpy()
    counts = np.sort(np.bincount(auction, minlength=work.auctions))[::-1]
    assert len(counts) == work.auctions
    for part in (0.001, 0.2):
        share = counts[: round(part * work.auctions)].sum() / counts.sum()
        # The most popular by count have some more than the most popular by chance.
        wanted = part ** (1 - 1 / shape)
        assert wanted - 0.01 < share < wanted + 0.13
    rank = auction * pow(spreading_step(work.auctions), -1, work.auctions) % work.auctions
    share = (rank < 0.2 * work.auctions).mean()
    assert share == pytest.approx(0.2 ** (1 - 1 / shape), abs=0.005)
    if shape == 1.16:
        assert share == pytest.approx(0.8, abs=0.005)


def test_prices_are_even_by_logarithm():
    price = BIDS.table("bids")["price"].to_numpy()
    assert price.min() >= 100
    assert price.max() <= 10**8
    decades = np.histogram(np.log10(price), bins=6, range=(2, 8))[0]
    assert abs(decades / len(price) * 6 - 1).max() < 0.03


def in_duckdb(sql: str, **tables: pa.Table) -> list[tuple[int, ...]]:
    with duckdb.connect() as db:
        for name, table in tables.items():
            db.register(name, table)
        return sorted(db.sql(sql).fetchall())


def rows(table: pa.Table) -> list[tuple[int, ...]]:
    """Key, begin of the window in ms, value; in order."""
    columns = [column.cast(pa.int64()).to_pylist() for column in table.columns]
    return sorted(zip(*columns, strict=True))


def test_queries_give_the_groups_of_duckdb(tmp_path):
    work = Ads(seconds=25, rate=2000, ads=1000)
    ads, campaigns = work.tables().values()
    wanted = in_duckdb(
        "SELECT ad, epoch_ms(t) // 10000 * 10000 AS w, count(*) FROM ads WHERE kind = 0 "
        "GROUP BY ALL",
        ads=ads,
    )
    assert rows(penstock.sql(work.query("10 seconds"), {"ads": ads})) == wanted
    assert "window(t, '10 minutes')" in work.query()
    wanted = in_duckdb(
        "SELECT campaign, epoch_ms(t) // 10000 * 10000 AS w, count(*) "
        "FROM ads JOIN campaigns USING (ad) WHERE kind = 0 GROUP BY ALL",
        ads=ads,
        campaigns=campaigns,
    )
    assert len(wanted) == 300
    path = str(tmp_path / "campaigns.rel")
    with closing(build(campaigns, path, RelationOptions(key=("ad",)))) as stored:
        tables = {"ads": ads, "campaigns": penstock.relation(stored.name)}
        assert rows(penstock.sql(work.lookup_query(), tables)) == wanted
    work = Bids(seconds=100, rate=300, auctions=2000)
    bids = work.table("bids")
    wanted = in_duckdb(
        "SELECT auction, epoch_ms(t) // 60000 * 60000 AS w, max(price) FROM bids GROUP BY ALL",
        bids=bids,
    )
    assert rows(penstock.sql(work.query(), {"bids": bids})) == wanted
    assert len({begin for _, begin, _ in wanted}) == 2


def test_command_line(tmp_path):
    done = CliRunner().invoke(
        app, ["ads", "--out", str(tmp_path), "--seconds", "2", "--ads", "1000", "--seed", "7"]
    )
    assert done.exit_code == 0, done.output
    assert "GROUP BY ad" in done.output
    ads = Ads(seconds=2, ads=1000, seed=7)
    assert pq.read_table(tmp_path / "ads.parquet").equals(ads.table("ads"))
    assert pq.read_table(tmp_path / "campaigns.parquet").num_rows == 1000
    done = CliRunner().invoke(app, ["bids", "--out", str(tmp_path), "--seconds", "2"])
    assert done.exit_code == 0, done.output
    assert pq.read_table(tmp_path / "bids.parquet").equals(Bids(seconds=2).table("bids"))
    assert (tmp_path / "query.sql").read_text() == Bids().query() + "\n"
