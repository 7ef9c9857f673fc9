"""Time zones: their transitions against zoneinfo, their names against what Spark takes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pytest

from penstock.errors import UsageError
from penstock.zones import find_zone, zone_of
from tests.kit.effort import effort
from tests.penstock.kit.clocks import ZONES

EPOCH = datetime(1970, 1, 1)
REGIONS = [name for name in ZONES if "/" in name]
SECONDS = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 10**9}

# What spark.sql.session.timeZone takes, with the offset of 2024-07-01 that Spark has for it.
NAMES = {
    "UTC": 0,
    "Z": 0,
    "UT": 0,
    "GMT0": 0,
    "Zulu": 0,
    "-00:00": 0,
    "+5": 18000,
    "+5:3": 18180,
    "+5:30": 19800,
    "+05:30": 19800,
    "+0530": 19800,
    "+05:30:15": 19815,
    "+123456": 45296,
    "+18:00": 64800,
    "GMT+2": 7200,
    "GMT+0230": 9000,
    "UT+3": 10800,
    "UTC-9:30": -34200,
    "Etc/GMT+5": -18000,
    "EST5EDT": -14400,
    "EST": -18000,
    "HST": -36000,
    "IST": 19800,
    "NST": 43200,
    "PNT": -25200,
    "PST": -25200,
    "Asia/Kolkata": 19800,
}
NO_NAMES = [
    "5", "utc", "gmt", "america/new_york", "+18:30", "+5:61", "right/UTC", "posixrules",
    "localtime", "Factory", "GMT+", "+", "U", " UTC", "", "America", "../UTC", "Mars/Base",
]  # fmt: skip


@pytest.mark.parametrize("name", NO_NAMES)
def test_what_is_no_zone(name):
    assert find_zone(name) is None
    with pytest.raises(UsageError, match=r"there is no time zone .*; give a region such as"):
        zone_of(name)


@pytest.mark.parametrize("name", NAMES)
def test_names_as_in_spark(name):
    instant = np.array([1_719_792_000])
    assert zone_of(name).local(instant, "s") - instant == NAMES[name]


def seconds(random: Random, name: str, count: int) -> list[int]:
    """Instants of all times, half of them around the transitions."""
    zone = zone_of(name)
    turns = [int(at) for at in zone._at] or [0]
    near = [random.choice(turns) + random.randint(-90_000, 90_000) for _ in range(count // 2)]
    return near + [random.randint(-62_000_000_000, 253_300_000_000) for _ in range(count // 2)]


def wall_of(name: str, second: int) -> int:
    moment = (EPOCH + timedelta(seconds=second)).replace(tzinfo=UTC).astimezone(ZoneInfo(name))
    return (moment.replace(tzinfo=None) - EPOCH) // timedelta(seconds=1)


@pytest.mark.parametrize("unit", SECONDS)
@pytest.mark.parametrize("name", REGIONS)
def test_wall_clocks_of_instants(name, unit):
    random = Random(f"{name} {unit}")
    instants = [s for s in seconds(random, name, 400) if abs(s * SECONDS[unit]) < 1 << 62]
    parts = [random.randrange(SECONDS[unit]) for _ in instants]
    found = zone_of(name).local(
        np.array([s * SECONDS[unit] + p for s, p in zip(instants, parts, strict=True)]), unit
    )
    wanted = [wall_of(name, s) * SECONDS[unit] + p for s, p in zip(instants, parts, strict=True)]
    assert found.tolist() == wanted


def instant_of(name: str, wall: int, near: int | None, start: bool) -> int:
    """By PEP 495: fold 0 is the earlier offset, and in a gap the one before it."""
    moment = (EPOCH + timedelta(seconds=wall)).replace(tzinfo=ZoneInfo(name))
    early, late = (
        wall - int(moment.replace(fold=fold).utcoffset().total_seconds()) for fold in (0, 1)
    )
    is_gap = wall_of(name, early) != wall
    if is_gap and start:
        # The transition: the first instant whose wall clock is beyond the gap.
        low, high = early - 90_000, early
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if wall_of(name, middle) > wall else (middle, high)
        return high
    if near is not None and not is_gap and late != early:
        return late if wall_of(name, near) - near == wall - late else early
    return early


@pytest.mark.parametrize("name", REGIONS)
def test_instants_of_wall_clocks(name):
    random, zone = Random(name), zone_of(name)
    walls = [wall_of(name, s) + random.randint(-4000, 4000) for s in seconds(random, name, 400)]
    near = [w + random.randint(-9_000_000, 9_000_000) for w in walls]
    array = np.array(walls)
    assert zone.instant(array, "s").tolist() == [instant_of(name, w, None, False) for w in walls]
    found = zone.instant(array, "s", near=np.array(near)).tolist()
    assert found == [instant_of(name, w, n, False) for w, n in zip(walls, near, strict=True)]
    found = zone.instant(array, "s", start=True).tolist()
    assert found == [instant_of(name, w, None, True) for w in walls]


def test_every_zone_of_the_database():
    random = Random(7)
    every = sorted(available_timezones())
    tried = random.sample(every, effort(len(every), 40))
    names = [name for name in tried if find_zone(name) is not None]
    assert len(every) > 400
    assert len(names) > 0.7 * len(tried)
    for name in random.sample(names, effort(60, 15)):
        instants = seconds(random, name, 60)
        wanted = [wall_of(name, s) for s in instants]
        if name not in ("EST", "HST", "MST"):  # offsets in Java, and so in Spark
            assert zone_of(name).local(np.array(instants), "s").tolist() == wanted, name


def test_years_beyond_the_calendar():
    cycle = 146_097 * 86_400
    for name in REGIONS:
        zone, near = zone_of(name), np.array([4_200_000_000 + 500_000 * k for k in range(700)])
        far = (near.astype(object) + 700 * cycle) * 1_000_000
        assert ((zone.local(far, "us") // 1_000_000 - 700 * cycle) == zone.local(near, "s")).all()
        assert (
            (zone.instant(far, "us") // 1_000_000 - 700 * cycle) == zone.instant(near, "s")
        ).all()


@pytest.mark.parametrize("name", REGIONS)
def test_floors_never_fall(name):
    zone = zone_of(name)
    instants = np.array(sorted(seconds(Random(name), name, 3000)))
    walls, floors = zone.local(instants, "s"), zone.local(instants, "s", floor=True)
    assert (np.diff(floors) >= 0).all()
    least = np.minimum.accumulate(walls[::-1])[::-1]
    assert (floors <= least).all()
    assert (floors == least).mean() > 0.7
    starts = zone.instant(np.sort(walls), "s", start=True)
    assert (np.diff(starts) >= 0).all()
