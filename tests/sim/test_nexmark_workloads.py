"""NEXMark's people, auctions and bids against what its suite defines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from penstock.sim.workloads import NB7, Q8, Q11

#: Several slots of each stream.
Q8_WORK = Q8(seconds=65, rate=4_000)
Q11_WORK = Q11(seconds=65, rate=4_000)


def times_ms(table: pa.Table) -> np.ndarray:
    return table["t"].cast("int64").to_numpy()


def ints(table: pa.Table, column: str) -> np.ndarray:
    return table[column].to_numpy().astype(np.int64)


def test_of_fifty_events_one_is_a_person_three_are_auctions():
    counts = {
        stream: work.table(stream).num_rows
        for work in (replace(Q8_WORK, seconds=50), replace(Q11_WORK, seconds=50))
        for stream in work.schemas
    }
    assert counts == {"persons": 4_000, "auctions": 12_000, "bids": 184_000}


def test_events_have_their_times():
    people, auctions = Q8_WORK.tables().values()
    bids = Q11_WORK.table("bids")
    event = {"p": np.arange(len(people)) * 50}
    event["a"] = np.arange(len(auctions)) // 3 * 50 + 1 + np.arange(len(auctions)) % 3
    event["b"] = np.arange(len(bids)) // 46 * 50 + 4 + np.arange(len(bids)) % 46
    start = round(Q8_WORK.start.timestamp() * 1000)
    for name, table in (("p", people), ("a", auctions), ("b", bids)):
        assert (times_ms(table) == start + event[name] * 1_000_000 // 4_000 // 1000).all()
    assert people["id"].to_pylist() == list(range(1000, 1000 + len(people)))
    assert auctions["id"].to_pylist() == list(range(1000, 1000 + len(auctions)))
    # 1,666 events are half of an auction's mean life, 416.5 ms.
    life = auctions["expires"].cast("int64").to_numpy() - times_ms(auctions)
    assert life.min() >= 1
    assert life.max() <= 834
    assert life.mean() == pytest.approx(417, rel=0.02)


def test_hot_ones_have_their_shares():
    auctions, bids = Q8_WORK.table("auctions"), Q11_WORK.table("bids")
    # What came last before an auction, or a bid, of its 50 events.
    person_a, person_b = np.arange(len(auctions)) // 3, np.arange(len(bids)) // 46
    auction_b = person_b * 3 + 2
    seller = ints(auctions, "seller")
    bidder, auction = ints(bids, "bidder"), ints(bids, "auction")
    for found, base, last, every, plus, share, back in (
        (seller, 1000, person_a, 100, 0, 3 / 4, 1000),
        # The suite adds the first person's number twice.
        (bidder, 2000, person_b, 100, 1, 3 / 4, 1000),
        (auction, 1000, auction_b, 100, 0, 1 / 2, 101),
    ):
        is_hot = found - base == last // every * every + plus
        others = share + (1 - share) / back
        assert is_hot.mean() == pytest.approx(others, abs=0.01)
        # The others are even over those before, and ten that are yet to come.
        ahead = (found - base - last)[~is_hot & (last >= 1000)]
        assert ahead.min() >= 1 - back
        assert ahead.max() == 10
        bins = np.histogram(ahead, bins=5, range=(1 - back, 11))[0]
        assert abs(bins / len(ahead) * 5 - 1).max() < 0.1
        early = (found - base)[last < 100]
        assert early.min() >= 0


def test_prices_are_even_by_logarithm():
    auctions = Q8_WORK.table("auctions")
    for price in (
        ints(NB7(seconds=20).table("bids"), "price"),
        ints(Q11_WORK.table("bids"), "price"),
        ints(auctions, "initial_bid"),
        ints(auctions, "reserve") - ints(auctions, "initial_bid"),
    ):
        assert price.min() >= 100
        assert price.max() <= 10**8
        decades = np.histogram(np.log10(price), bins=6, range=(2, 8))[0]
        assert abs(decades / len(price) * 6 - 1).max() < 0.06


def test_texts_fill_rows_up():
    people, auctions = Q8_WORK.tables().values()
    bids = Q11_WORK.table("bids")
    # As the suite counts: a person's time and a bid's channel and address do not count.
    for table, texts, fixed, mean in (
        (people, ("name", "email", "card", "city", "state", "extra"), 8, 200),
        (auctions, ("item", "description", "extra"), 48, 500),
        (bids, ("extra",), 32, 100),
    ):
        sizes = sum(np.char.str_len(table[name].to_numpy().astype(str)) for name in texts)
        assert (sizes + fixed).mean() == pytest.approx(mean, rel=0.01)
    states = people["state"].value_counts()
    assert sorted(states.field("values").to_pylist()) == ["AZ", "CA", "ID", "OR", "WA", "WY"]
    assert len(people["city"].unique()) == 10
    assert len(people["name"].unique()) <= 99
    assert set(ints(auctions, "category")) == set(range(10, 15))
    channels = bids["channel"].value_counts()
    counts = dict(zip(*(channels.field(place).to_pylist() for place in (0, 1)), strict=True))
    hot = [counts.pop(name) for name in ("Google", "Facebook", "Baidu", "Apple")]
    assert sum(hot) / len(bids) == pytest.approx(1 / 2, abs=0.01)
    assert max(hot) / min(hot) < 1.05
    assert all(name.startswith("channel-") for name in counts)
    assert len(counts) == pytest.approx(10_000, rel=0.01)
    urls = bids.group_by("channel").aggregate([("url", "count_distinct")])
    assert set(urls["url_count_distinct"].to_pylist()) == {1}
