"""A random order of calls on a stream, and which rows it takes."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pyarrow as pa

from .columns import Table


@dataclass(frozen=True)
class Call:
    """A call: register, push, advance, deregister, poll or flush; of rows ``first`` to ``last``."""

    name: str
    feed: str = ""
    first: int = 0
    last: int = 0
    time: int = 0


def calls(rng: Random, table: Table, *, timed: bool) -> list[Call]:
    """Each feed's rows in order, cut into pushes, between the pushes of the others.

    Parameters
    ----------
    timed : bool
        Whether the stream has an event time, so that it can advance.
    """
    feeds = len(table.bounds) - 1
    named = feeds > 1 or rng.random() < 0.3
    result = [Call("register", f"f{i}") for i in range(feeds)] if named else []
    at = table.bounds[:-1]
    typical = rng.choice([1, 5, 40, 1_000])
    if typical == 1 and len(table.times) > 60:
        typical = 7
    left = [i for i in range(feeds) if at[i] < table.bounds[i + 1]]
    while left:
        feed = rng.choice(left)
        name = f"f{feed}" if named else ""
        last = min(table.bounds[feed + 1], at[feed] + rng.randint(0, 2 * typical))
        result.append(Call("push", name, at[feed], last))
        known = [t for t in table.times[table.bounds[feed] : last] if t is not None]
        at[feed] = last
        if timed and rng.random() < 0.1 and known:
            past = max(known) - rng.choice([0, 3, 20]) * table.clock.second
            result.append(Call("advance", name, time=past))
        if rng.random() < 0.2:
            result.append(Call(rng.choice(["poll", "poll", "flush", "late"])))
        if last == table.bounds[feed + 1]:
            left.remove(feed)
            if named and rng.random() < 0.5:
                result.append(Call("deregister", name))
    return result


def recut(rng: Random, calls: list[Call]) -> list[Call]:
    """The same rows and promises in the same order, in other batches, polled at other times."""
    result = []
    for call in calls:
        if call.name in ("poll", "flush", "late"):
            continue
        at = call.first
        while call.name == "push" and call.last - at > 1 and rng.random() < 0.5:
            cut = rng.randrange(at + 1, call.last)
            result.append(Call("push", call.feed, at, cut))
            at = cut
            if rng.random() < 0.3:
                result.append(Call("poll"))
        result.append(replace(call, first=at))
    return result


class Promises:
    """Which rows are late: below what their own feed, or all of the source, had promised."""

    def __init__(self, table: Table, calls: list[Call], *, timed: bool) -> None:
        feeds = len(table.bounds) - 1
        self._table = table
        self._feeds: dict[str, int | None] = {}
        self._disorder: dict[str, int] = {"": table.disorder[0]}
        self._disorder |= {f"f{i}": table.disorder[i] for i in range(feeds)}
        self._done: int | None = None
        named = any(c.name == "register" for c in calls)
        self._feeds = {f"f{i}": None for i in range(feeds)} if named else {"": None}
        self.accepted = [True] * len(table.times)
        for call in calls if timed else []:
            self._make(call)

    def _make(self, call: Call) -> None:
        if call.name == "advance":
            self._promise(call.feed, call.time)
        elif call.name == "deregister":
            del self._feeds[call.feed]
            self._settle()
        elif call.name == "push":
            for i in range(call.first, call.last):
                time = self._table.times[i]
                if time is None:
                    continue
                own = self._feeds[call.feed]
                if any(p is not None and time < p for p in (own, self._done)):
                    self.accepted[i] = False
                else:
                    self._promise(call.feed, time - self._disorder[call.feed])

    def _promise(self, feed: str, time: int) -> None:
        before = self._feeds[feed]
        self._feeds[feed] = time if before is None else max(before, time)
        self._settle()

    def _settle(self) -> None:
        promised = list(self._feeds.values())
        if not promised or any(p is None for p in promised):
            return
        least = min(p for p in promised if p is not None)
        self._done = least if self._done is None else max(self._done, least)


def batch(rng: Random, rows: pa.Table) -> pa.Table | pa.RecordBatch:
    """The rows in one of the shapes that Arrow has for them."""
    match rng.randrange(4):
        case 0 if rows.num_rows:
            return rows.combine_chunks().to_batches()[0]
        case 1 if rows.num_rows > 1:
            cut = rng.randrange(1, rows.num_rows)
            return pa.concat_tables([rows.slice(0, cut).combine_chunks(), rows.slice(cut)])
        case 2:
            return rows.combine_chunks()
    return rows


def drive(
    stream: Any, rng: Random, table: Table, made: list[Call], *, timed: bool
) -> tuple[pa.Table, pa.Table]:
    """The groups that a stream gives, in order, and its late rows."""
    rows, late = [], []
    for call in made:
        if call.name == "register":
            disorder = span(table, table.disorder[int(call.feed[1:])]) if timed else None
            stream.register("e", call.feed, disorder)
        elif call.name == "push":
            here = table.rows.slice(call.first, call.last - call.first)
            stream.push("e", batch(rng, here), feed=call.feed)
        elif call.name == "advance":
            stream.advance("e", call.time, feed=call.feed)
        elif call.name == "deregister":
            stream.deregister("e", call.feed)
        elif call.name == "poll":
            rows.append(stream.poll())
        elif call.name == "late":
            late.append(stream.late()["e"])
        else:
            stream.flush()
    stream.flush()
    late.append(stream.late()["e"])
    rows.append(stream.close())
    return pa.concat_tables(rows), pa.concat_tables(late)


def span(table: Table, units: int) -> int | datetime.timedelta:
    """A length of time as users write it."""
    if table.clock.integer:
        return units
    return datetime.timedelta(microseconds=units * 1_000_000 // table.clock.second)
