"""Workloads of the Slash paper: records, shares, shapes and files, and those of YSB's owner."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from penstock.errors import UsageError
from penstock.sim.workloads import CM, NB7, NB8, NB11, Q7, Q8, Q11, RO, YSB, Yahoo
from penstock.sim.workloads.cli import app
from penstock.sim.workloads.draws import Zipf, spreading_step
from penstock.sim.workloads.workload import TIMESTAMP_MS, Workload

#: Several slots of each stream.
WORK: dict[str, Workload] = {
    "ysb": YSB(seconds=20, rate=10_000, ads=50_000),
    "yahoo": Yahoo(seconds=15, rate=10_000),
    "cm": CM(seconds=15, rate=10_000, jobs=5_000),
    "nb7": NB7(seconds=20, rate=10_000, auctions=20_000, bidders=1000),
    "nb8": NB8(seconds=15, rate=10_000, active=300),
    "nb11": NB11(seconds=15, rate=10_000, active=300),
    "ro": RO(seconds=15, rate=10_000, keys=30_000),
    "q8": Q8(seconds=65, rate=4_000),
    "q11": Q11(seconds=65, rate=4_000),
}
STREAMS = [
    pytest.param(work, stream, id=f"{name}-{stream}")
    for name, work in WORK.items()
    for stream in work.schemas
    if stream != "campaigns"
]


def times_ms(table: pa.Table) -> np.ndarray:
    return table["t"].cast("int64").to_numpy()


def ints(table: pa.Table, column: str) -> np.ndarray:
    return table[column].to_numpy().astype(np.int64)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: YSB(rate=0), "rate must be 0.001 to 1e+09 rows/s, not 0"),
        (lambda: YSB(ads=0), "ads must be 1 to"),
        (lambda: YSB(skew=-0.1), "skew must be 0 to 10, not -0.1"),
        (lambda: YSB(window_s=0), "window_s must be 1 to 1e+06 s, not 0"),
        (lambda: YSB(seed=-1), "seed must be"),
        (lambda: Yahoo(rate=float("nan")), "rate must be"),
        (lambda: CM(jobs=0), "jobs must be 1 to"),
        (lambda: CM(skew=11), "skew must be 0 to 10, not 11"),
        (lambda: NB7(auctions=0), "auctions must be 1 to"),
        (lambda: NB7(bidders=0), "bidders must be 1 to"),
        (lambda: NB7(shape=1), "shape must be 1.01 to 100, not 1"),
        (lambda: NB7(shape=float("nan")), "shape must be"),
        (lambda: NB8(active=0), "active must be 1 to"),
        (lambda: NB8(disorder_s=-1), "disorder_s must be 0 to 3600 s, not -1"),
        (lambda: NB11(gap_s=0), "gap_s must be 1 to"),
        (lambda: RO(keys=1 << 32), "keys must be 1 to"),
        (lambda: Q7(rate=-1), "rate must be 0.001 to 1e+09 events/s, not -1"),
        (lambda: next(YSB().batches("bids")), "YSB has no stream 'bids'; it has ads"),
    ],
)
def test_bad_arguments(make, message: str):
    with pytest.raises(UsageError) as caught:
        make()
    assert message in str(caught.value)


@pytest.mark.parametrize(("work", "stream"), STREAMS)
def test_the_seed_alone_decides(work: Workload, stream: str):
    work = replace(work, seconds=9)
    table = work.table(stream)
    assert table.schema == work.schemas[stream]
    assert replace(work).table(stream).equals(table)
    assert not replace(work, seed=2).table(stream).equals(table)
    batches = list(work.batches(stream, rows=997))
    assert all(batch.num_rows == 997 for batch in batches[:-1])
    assert pa.Table.from_batches(batches).equals(table)


@pytest.mark.parametrize("work", [WORK["ysb"], WORK["nb7"], WORK["cm"]])
def test_times_are_even(work: Workload):
    (stream,) = work.schemas
    table = work.table(stream)
    assert table["t"].type == TIMESTAMP_MS
    since = times_ms(table) - round(work.start.timestamp() * 1000)
    assert (since == np.arange(work.seconds * 10_000) // 10).all()
    # However long a slot and however odd the rate, no row is missing or doubled.
    odd = replace(work, seconds=30, rate=6001.7)
    assert odd.table(stream).num_rows == np.ceil(30 * 6001.7)


@pytest.mark.parametrize("name", ["nb8", "q8"])
def test_disorder_moves_rows_and_changes_none(name: str):
    work = WORK[name]
    for stream in work.schemas:
        whole, late = work.table(stream), replace(work, disorder_s=0.5).table(stream)
        behind = np.maximum.accumulate(times_ms(late)) - times_ms(late)
        assert 300 < behind.max() <= 500
        # The slots, and so what is drawn, are the same: rows have another order only.
        assert late.sort_by("id").equals(whole.sort_by("id"))


@pytest.mark.parametrize(
    ("name", "stream", "size"),
    [("ysb", "ads", 78), ("cm", "tasks", 64), ("nb7", "bids", 32), ("nb11", "bids", 32),
     ("nb8", "auctions", 269), ("nb8", "sellers", 206), ("nb11", "sellers", 206),
     ("ro", "reads", 16)],
)  # fmt: skip
def test_records_have_the_papers_sizes(name: str, stream: str, size: int):
    assert sum(field.type.bit_width for field in WORK[name].schemas[stream]) == 8 * size


# YSB


def test_a_third_are_views_and_ads_are_uniform():
    table = WORK["ysb"].table("ads")
    kinds = ("view", "click", "purchase")
    formats = ("banner", "modal", "sponsored-search", "mail", "mobile")
    for number, name, names in (("kind", "kind_name", kinds), ("format", "format_name", formats)):
        counts = np.bincount(table[number].to_numpy())
        assert abs(counts / len(table) * len(names) - 1).max() < 0.03
        texts = [text.rstrip(b"\0").decode() for text in table[name].to_pylist()[:1000]]
        assert texts == [names[k][:8] for k in table[number].to_pylist()[:1000]]
    per_ad = np.bincount(table["ad"].to_numpy(), minlength=50_000)
    assert len(per_ad) == 50_000
    # Poisson, of 4 events an advertisement.
    assert per_ad.mean() == 4
    assert per_ad.var() == pytest.approx(4, rel=0.05)
    assert len(set(table["user"].to_pylist())) == len(table)


@pytest.mark.parametrize(("name", "stream", "key"), [("ysb", "ads", "ad"), ("ro", "reads", "key")])
@pytest.mark.parametrize("skew", [0.2, 1.0, 2.0])
def test_keys_follow_zipf(name: str, stream: str, key: str, skew: float):
    work = replace(WORK[name], skew=skew)
    keys = ints(work.table(stream), key)
    count = {"ysb": 50_000, "ro": 30_000}[name]
    assert 0 <= keys.min() <= keys.max() < count
    by_share = np.sort(np.bincount(keys, minlength=count))[::-1] / len(keys)
    weights = np.arange(1, count + 1) ** -skew
    weights /= weights.sum()
    # Few keys have many rows each, so their order by count is that by share, nearly.
    top = 20 if skew >= 1 else count // 2
    slack = 0.01 if skew >= 1 else 0.15
    assert weights[:top].sum() - 0.01 < by_share[:top].sum() < weights[:top].sum() + slack
    if skew >= 1:
        assert by_share[0] == pytest.approx(weights[0], rel=0.05)


def test_zipf_of_more_keys_than_are_added_one_by_one():
    chance = np.linspace(0, 1, 1_000_000, endpoint=False)
    for exponent in (0.0, 0.5, 1.0, 1.2, 2.0):
        weights = np.arange(1, 1_000_001) ** -exponent
        share = np.cumsum(weights) / weights.sum()
        ranks = Zipf(1_000_000, exponent).ranks(chance)
        for rank in (0, 100, 70_000, 500_000):
            assert (ranks <= rank).mean() == pytest.approx(share[rank], abs=1e-4)
    # Popular ones are not neighbours, and each key has one rank.
    spread = Zipf(1000, 1.0)
    assert spreading_step(1000) > 1
    keys = spread.keys(np.random.default_rng(1), 200_000)
    assert len(np.unique(keys)) == 1000


def test_yahoos_ads_have_campaigns():
    work = WORK["yahoo"]
    events, campaigns = work.table("events"), work.table("campaigns")
    ads = campaigns["ad_id"].to_pylist()
    assert len(set(ads)) == len(ads) == 1000
    counts = campaigns["campaign_id"].value_counts().field("counts").to_pylist()
    assert counts == [10] * 100
    assert all(len(ad) == 36 and ad.count("-") == 4 for ad in ads)
    assert set(events["ad_id"].to_pylist()) == set(ads)
    for name, values in (
        ("event_type", {"view", "click", "purchase"}),
        ("ad_type", {"banner", "modal", "sponsored-search", "mail", "mobile"}),
        ("ip_address", {"1.2.3.4"}),
    ):
        shares = {
            one["values"]: one["counts"] / len(events) * len(values)
            for one in events[name].value_counts().to_pylist()
        }
        assert shares.keys() == values
        assert all(share == pytest.approx(1, abs=0.03) for share in shares.values())
    for name in ("user_id", "page_id"):
        assert len(events[name].unique()) == 100


# CM


def test_jobs_have_shares_by_zipf():
    table = WORK["cm"].table("tasks")
    share = np.sort(np.bincount(ints(table, "job")))[::-1] / len(table)
    weights = np.arange(1, 5001) ** -1.2
    assert share[:10] == pytest.approx(weights[:10] / weights.sum(), rel=0.1)
    machine = ints(table, "machine")
    assert len(np.unique(machine)) == 12_500
    assert machine.max() == 12_499
    for name in ("cpu", "ram", "disk"):
        parts = table[name].to_numpy()
        assert parts.min() >= 0
        assert parts.max() <= 1
        # Sums in doubles are exact in any order.
        assert (parts * 1024 == np.rint(parts * 1024)).all()
    assert np.unique(ints(table, "event")).tolist() == list(range(9))
    users: dict[int, int] = {}
    for job, user in zip(table["job"].to_pylist(), table["user"].to_pylist(), strict=True):
        assert users.setdefault(job, user) == user


# NB7, NB8, NB11


@pytest.mark.parametrize("shape", [1.16, 1.5, 4.0])
def test_bids_follow_their_shape(shape: float):
    work = replace(WORK["nb7"], shape=shape)
    auction = work.table("bids")["auction"].to_numpy()
    counts = np.sort(np.bincount(auction, minlength=20_000))[::-1]
    assert len(counts) == 20_000
    for part in (0.001, 0.2):
        share = counts[: round(part * 20_000)].sum() / counts.sum()
        # The most popular by count have some more than the most popular by chance.
        wanted = part ** (1 - 1 / shape)
        assert wanted - 0.01 < share < wanted + 0.13
    rank = auction * pow(spreading_step(20_000), -1, 20_000) % 20_000
    share = (rank < 0.2 * 20_000).mean()
    assert share == pytest.approx(0.2 ** (1 - 1 / shape), abs=0.005)
    if shape == 1.16:
        assert share == pytest.approx(0.8, abs=0.005)


@pytest.mark.parametrize(("name", "stream"), [("nb8", "auctions"), ("nb11", "bids")])
def test_each_seller_has_four(name: str, stream: str):
    # The last block of sellers is cut off.
    work = replace(WORK[name], seconds=3.4567)
    rows, sellers = work.table(stream), work.table("sellers")
    ids = ints(sellers, "id")
    assert len(np.unique(ids)) == len(ids)
    of, counts = np.unique(ints(rows, "seller"), return_counts=True)
    assert set(of) <= set(ids), "every row has a seller"
    assert (counts[:-1] == 4).all()
    assert counts[-1] <= 4
    assert len(rows) / len(sellers) == pytest.approx(4, rel=0.001)
    # Mixed with others, and within the time that the options say.
    since = dict(zip(ids.tolist(), times_ms(sellers).tolist(), strict=True))
    apart = times_ms(rows) - [since[one] for one in rows["seller"].to_pylist()]
    assert 60 < abs(apart).max() <= 4 * 300 / 10_000 * 1000 + 1
    assert (apart < 0).any()
    assert (apart > 0).any()


# Files


def test_command_line(tmp_path):
    def run(*arguments: str) -> str:
        done = CliRunner().invoke(app, list(arguments))
        assert done.exit_code == 0, done.output
        return done.output

    out = str(tmp_path)
    output = run(
        "ysb", "--out", out, "--seconds", "2", "--ads", "1000", "--skew", "1", "--seed", "7"
    )
    assert "GROUP BY ad" in output
    work = YSB(seconds=2, ads=1000, skew=1.0, seed=7)
    assert pq.read_table(tmp_path / "ads.parquet").equals(work.table("ads"))
    assert (tmp_path / "query.sql").read_text() == work.query() + "\n"
    run("nb7", "--out", out, "--seconds", "2", "--window-s", "5")
    assert pq.read_table(tmp_path / "bids.parquet").equals(NB7(seconds=2).table("bids"))
    assert "window(t, '5 seconds')" in (tmp_path / "query.sql").read_text()
    # The query alone, with what runs before it.
    output = run("q7", "--sql")
    parts = ["-- top", Q7().stages()["top"], Q7().query()]
    places = [output.index(part) for part in parts]
    assert all(one < two for one, two in pairwise(places))
    assert run("q8", "--oracle").strip() == Q8().oracle()


def test_command_line_says_what_is_missing():
    for arguments, message in (
        (["ysb"], "give --out FOLDER to write the streams, or --sql"),
        (["city", "--oracle"], "city has no query for DuckDB"),
        (["nb8", "--sql", "--window-s", "0"], "window_s must be 1 to"),
    ):
        done = CliRunner().invoke(app, arguments)
        assert isinstance(done.exception, UsageError)
        assert message in str(done.exception)
