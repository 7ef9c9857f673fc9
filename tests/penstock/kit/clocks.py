"""Random expressions over timestamps of both kinds and dates, around the transitions of zones."""

from __future__ import annotations

import datetime
from random import Random

import pyarrow as pa

#: Zones, and days around whose transitions rows lie: gaps and overlaps of an hour and of half of
#: one, at midnight and a minute after it, a day that is left out, an offset with seconds.
ZONES = {
    "UTC": ("2024-03-10", "1969-12-31"),
    "America/New_York": ("2024-03-10", "2024-11-03", "1883-11-18"),
    "Australia/Lord_Howe": ("2024-04-07", "2024-10-06"),
    "America/St_Johns": ("2010-03-14", "2010-11-07"),
    "Pacific/Apia": ("2011-12-30", "2011-09-24"),
    "Asia/Kolkata": ("2024-03-10", "1941-10-01"),
    "Europe/Dublin": ("2024-03-31", "2024-10-27", "2100-10-31"),
    "America/Toronto": ("1919-03-31", "2024-11-03"),
    "GMT-9:30": ("2024-03-10",),
}
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("k", pa.int32()),
        ("t", pa.timestamp("us", "UTC")),
        ("n", pa.timestamp("us")),
        ("d", pa.date32()),
    ]
)
_UNITS = ("second", "minute", "hour", "day", "week")
_MINUTE = 60


def table(random: Random, zone: str, rows: int) -> pa.Table:
    """Rows around the zone's transitions, some NULL."""
    columns: dict[str, list] = {name: [] for name in SCHEMA.names}
    for number in range(rows):
        day = datetime.date.fromisoformat(random.choice(ZONES[zone]))
        columns["id"].append(number)
        columns["k"].append(0)
        start = datetime.datetime(day.year, day.month, day.day)
        seconds = random.randint(-30 * 60, 30 * 60) * _MINUTE + random.choice((0, 0, 0, 7))
        wall = start + datetime.timedelta(seconds=seconds, microseconds=random.choice((0, 0, 5)))
        instant = start + datetime.timedelta(minutes=15 * random.randint(-160, 160))
        columns["n"].append(None if random.random() < 0.05 else wall)
        columns["t"].append(
            None if random.random() < 0.05 else instant.replace(tzinfo=datetime.UTC)
        )
        columns["d"].append(day + datetime.timedelta(days=random.randint(-2, 2)))
    return pa.table(columns, schema=SCHEMA)


class Clocks:
    """A grammar of expressions over ``l`` and ``r``.

    Parameters
    ----------
    random : Random
    zone : str
    """

    def __init__(self, random: Random, zone: str) -> None:
        self.random = random
        self.days = ZONES[zone]

    def condition(self) -> str:
        """A condition over both sides."""
        kind = self.random.randrange(7)
        if kind == 5:
            low, high = self.interval(), self.interval()
            left, right = self.random.choice(("tt", "nn", "tn", "nt", "td", "dt", "nd", "dd"))
            return f"r.{right} BETWEEN l.{left} - {low} AND l.{left} + {high}"
        if kind == 6:
            return f"abs(r.t - l.t) <= {self.interval()} AND {self.filter('l')}"
        if kind == 0:
            return f"abs({self.difference()}) {self.sign()} {self.interval()}"
        if kind == 1:
            return f"{self.difference()} {self.sign()} {self.interval()}"
        if kind == 2:
            a, b, c = (self.time(side, 1) for side in "rll")
            return f"{a} BETWEEN {b} AND {c}"
        a, b = self.time("l", 2), self.time("r", 2)
        return f"{a} {self.sign()} {b}"

    def filter(self, side: str) -> str:
        """A condition on one side."""
        if self.random.random() < 0.2:
            options = ", ".join(self.literal() for _ in range(3))
            return f"{self.column(side)} IN ({options})"
        return f"{self.time(side, 2)} {self.sign()} {self.literal()}"

    def time(self, side: str, depth: int) -> str:
        """A timestamp of either kind, or a date, of one side."""
        if depth == 0:
            return self.column(side)
        inner, rule = self.time(side, depth - 1), self.random.randrange(8)
        if rule == 0:
            return f"cast({inner} AS {self.random.choice(('timestamp', 'timestamp_ntz', 'date'))})"
        if rule in (1, 2):
            return f"date_trunc('{self.random.choice(_UNITS)}', {inner})"
        if rule in (3, 4):
            return f"({inner} {self.random.choice('+-')} {self.interval()})"
        if rule == 5:
            other = self.random.choice((self.literal(), self.column(side)))
            return f"{self.random.choice(('greatest', 'least', 'coalesce'))}({inner}, {other})"
        if rule == 6:
            return f"CASE WHEN {side}.id % 2 = 0 THEN {inner} ELSE {self.column(side)} END"
        return inner

    def difference(self) -> str:
        return f"({self.time('r', 1)} - {self.time('l', 1)})"

    def column(self, side: str) -> str:
        return f"{side}.{self.random.choice('ttnd')}"

    def interval(self) -> str:
        unit, most = self.random.choice((("SECONDS", 9000), ("HOURS", 60), ("DAYS", 8)))
        return f"INTERVAL {self.random.randint(0, most)} {unit}"

    def sign(self) -> str:
        return self.random.choice(("<", "<=", "=", ">", ">=", "<>"))

    def literal(self) -> str:
        day = datetime.date.fromisoformat(self.random.choice(self.days))
        minutes = self.random.randint(-120, 300)
        wall = datetime.datetime(day.year, day.month, day.day) + datetime.timedelta(minutes=minutes)
        kind = self.random.choice(("date", "timestamp", "timestamp", "timestamp_ntz"))
        if kind == "date":
            return f"date'{day}'"
        zone = self.random.choice(("", "", "", "Z", "+01:30", " Europe/London"))
        return f"{kind}'{wall}{zone if kind == 'timestamp' else ''}'"
