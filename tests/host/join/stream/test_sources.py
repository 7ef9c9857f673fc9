"""What a source of a stream is called, when a silent one lets others go, and what errors lose."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.errors import DataError, UsageError
from penstock.host.device.base import Device
from penstock.host.device.registry import open_device
from penstock.host.execute.stats import Stats
from penstock.host.grouping.intake import RowIntake
from penstock.host.join.stream import join
from penstock.host.sessions.open_sessions import OpenSessions
from penstock.host.state import GroupState
from penstock.host.windows.waiting import Pending
from tests.host.kit.engines import ENGINES, NEAR, SCHEMA, batch

SELECT = "SELECT {t}.id, {u}.id AS o FROM t {a} JOIN t {u} ON {t}.k = {u}.k "


ROWS = batch((1, "x", 0), (2, "x", 3), (3, "y", 4), (4, "x", 20))

#: Queries of a table that is joined with itself, by kind, and what they are opened with.
SELF: dict[str, tuple[str, dict[str, Any]]] = {
    "join": (SELECT + NEAR, {}),
    "left": (SELECT.replace(" JOIN", " LEFT JOIN") + NEAR, {}),
    "ROWS": (SELECT, {"rows": 2}),
    "sessions": (SELECT + "AND session_window({t}.t, 5) = session_window({u}.t, 5)", {}),
    "groups": (SELECT.replace("{u}.id AS", "count(*) AS") + NEAR + " GROUP BY {t}.id, {t}.t", {}),
    "behind": (SELECT.replace("{u}.id AS", "lower({u}.k) AS") + NEAR, {}),
    "before": (SELECT.replace("t {u}", "(SELECT id, t, lower(k) AS k FROM t) {u}") + NEAR, {}),
    "workers": (SELECT + NEAR, {"workers": 1}),
}  # fmt: skip


def opened(kind: str, t: str, u: str, **more: Any) -> Any:
    text, options = SELF[kind]
    query = text.format(t=t, u=u, a="" if t == "t" else t)
    return penstock.stream(query, {"t": SCHEMA}, time={t: "t", u: "t"}, **options, **more)


@pytest.mark.parametrize("kind", SELF)
def test_the_name_of_a_table_reaches_both_of_its_sides(kind: str) -> None:
    found = []
    for t in ("x", "t"):
        with opened(kind, t, "u", disorder={"t": 1}) as stream:
            for part in (ROWS.slice(0, 1), ROWS.slice(1)):
                stream.push("T", part)
                assert stream.pushed("t") == stream.pushed("u")
            stream.advance("t", 30)
            stream.push("t", batch((5, "x", 10)))  # late on both sides
            assert {alias: rows.num_rows for alias, rows in stream.late().items()}
            found.append(sorted(map(str, stream.close().to_pylist())))
            assert stream.report().late == {t: 1, "u": 1}
    assert found[0] == found[1]
    assert len(found[0]) > 2


def test_an_alias_reaches_its_side() -> None:
    with opened("join", "t", "u") as stream:
        stream.push("u", ROWS)
        assert (stream.pushed("t"), stream.pushed("u")) == (0, 1)
        assert stream.close().num_rows == 0


def test_an_alias_comes_before_the_name_of_another_table() -> None:
    query = "SELECT a.id, b.id AS o FROM b a JOIN a b ON a.k = b.k AND b.t BETWEEN a.t - 5 AND a.t"
    other = pa.schema([SCHEMA.field("k"), SCHEMA.field("id"), SCHEMA.field("t")])
    with penstock.stream(query, {"b": SCHEMA, "a": other}, time={"a": "t", "b": "t"}) as stream:
        stream.push("a", batch((1, "x", 1)))
        stream.push("b", batch((2, "x", 0)))
        assert stream.close().to_pylist() == [{"id": 1, "o": 2}]


def test_a_push_that_reached_one_side_is_pushed_to_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = [False, True]
    take = join.JoinStream._take

    def failing(self: join.JoinStream, *args: Any) -> None:
        if refused and refused.pop(0):
            raise DataError("no room")
        take(self, *args)

    with opened("join", "t", "u") as stream:
        monkeypatch.setattr(join.JoinStream, "_take", failing)
        with pytest.raises(DataError, match="no room"):
            stream.push("t", ROWS)
        stream.push("t", ROWS)
        rows = stream.close()
    with opened("join", "t", "u") as stream:
        stream.push("t", ROWS)
        assert sorted(map(str, stream.close().to_pylist())) == sorted(map(str, rows.to_pylist()))


# -- silence --------------------------------------------------------------------------------------


class Clock:
    """Seconds that pass when they are told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


JOIN = "SELECT a.id, b.id AS o FROM a LEFT JOIN b ON a.k = b.k " + NEAR.format(t="a", u="b")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("penstock.host.join.stream.sources.time", made)
    return made


def silent(**options: Any) -> Any:
    schemas, time = {"a": SCHEMA, "b": SCHEMA}, {"a": "t", "b": "t"}
    flow = penstock.Flow(idle_s=10.0)
    return penstock.stream(JOIN, schemas, time=time, flow=flow, **options)


def test_a_silent_source_lets_the_other_go(clock: Clock) -> None:
    with silent() as stream:
        stream.push("b", batch((1, "x", 0)))
        clock.now = 8.0
        stream.push("a", batch((2, "x", 1), (3, "y", 2), (4, "y", 100)))
        assert stream.poll()["id"].to_pylist() == [2]
        clock.now = 11.0  # b has been silent for longer than ten seconds, a has not
        stream.advance("a", 100)
        assert stream.poll()["id"].to_pylist() == [3]
        stream.push("b", batch((5, "y", 3), (6, "y", 100)))
        assert stream.late()["b"]["id"].to_pylist() == [5]
        assert stream.close().to_pylist() == [{"id": 4, "o": 6}]


def test_the_last_source_to_fall_silent_counts_until_then(clock: Clock) -> None:
    with silent() as stream:
        stream.push("a", batch((1, "y", 0)))
        clock.now = 5.0
        stream.push("b", batch((2, "x", 20)))
        clock.now = 100.0  # both are silent: b as the last one, which promises nothing below 20
        stream.push("a", batch((3, "y", 19), (4, "y", 20)))
        assert stream.late()["a"]["id"].to_pylist() == [3]


def test_sources_that_send_are_waited_for(clock: Clock) -> None:
    with silent() as stream:
        for k in range(5):
            clock.now = 9.0 * k
            stream.push("a", batch((k, "y", 100 * k)))
            stream.push("b", batch((k, "x", k)))
        assert stream.poll().num_rows == 0
        assert not any(rows.num_rows for rows in stream.late().values())


# -- errors ---------------------------------------------------------------------------------------

#: Seconds after which no batch is due in a test, and after which one is due at once.
_LATER, _SOON = 1000.0, 0.001


def _broken(own: Any, name: str, *, after: bool) -> None:
    """Make a method fail, before it has done what it does or after."""
    done = getattr(own, name)

    def fail(*args: Any, **more: Any) -> None:
        if after:
            done(*args, **more)
        raise DataError("broken")

    setattr(own, name, fail)


#: What fails of a join that is opened.
FAULTS: dict[str, Callable[[Any], None]] = {
    "step": lambda stream: _broken(stream._session.engine, "step", after=False),
    "step at its end": lambda stream: _broken(stream._session.engine, "step", after=True),
    "take": lambda stream: _broken(stream._intake, "next_tuples", after=True),
}
#: Calls by which a batch that waits is let in, and the latency target that they need.
CALLS: dict[str, tuple[float, Callable[[Any], Any]]] = {
    "push": (0.0, lambda stream: stream.push("a", ROWS)),
    "flush": (_LATER, lambda stream: stream.flush()),
    "close": (_LATER, lambda stream: stream.close()),
    "by itself": (_SOON, lambda stream: stream.wait_for(lambda: False, 60.0)),
}


def _is_over(stream: Any, source: str = "a") -> None:
    """A stream says by each call what has ended it."""
    for call in (
        lambda: stream.push(source, ROWS),
        lambda: stream.flush(),
        lambda: stream.poll(),
        lambda: stream.wait(1, 0.0),
    ):
        with pytest.raises(DataError, match="broken"):
            call()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("call", CALLS)
def test_an_error_that_loses_rows_ends_a_join(engine: str, fault: str, call: str) -> None:
    query, options = ENGINES[engine]
    latency_s, do = CALLS[call]
    flow = penstock.Flow(latency_s=latency_s)
    schemas, time = {"a": SCHEMA, "b": SCHEMA}, {"a": "t", "b": "t"}
    stream = penstock.stream(query, schemas, time=time, flow=flow, **options)
    stream.push("b", ROWS)
    stream.flush()  # the next batch is due after a part of the target
    stream._thread.call(lambda: FAULTS[fault](stream))
    with pytest.raises(DataError, match="broken"):  # noqa: PT012
        if latency_s:
            stream.push("a", ROWS)
        do(stream)
    if call != "close":
        _is_over(stream)
    for _ in range(2):
        with pytest.raises(DataError, match="broken"):
            stream.close()


def test_an_error_of_a_promise_ends_a_join() -> None:
    with pytest.raises(DataError, match="broken"), silent() as stream:  # noqa: PT012
        stream.push("a", ROWS)
        stream._thread.call(lambda: FAULTS["step"](stream))
        with pytest.raises(DataError, match="broken"):
            stream.advance("b", 100)
        _is_over(stream)


@pytest.mark.parametrize(
    ("kind", "own", "name"),
    [
        ("sessions", OpenSessions, "close"),
        ("sessions", Pending, "add"),
        ("groups of one", GroupState, "fold"),
        ("groups of one", RowIntake, "take_in"),
        ("workers", RowIntake, "take_in"),
    ],
)
def test_an_error_that_loses_rows_ends_other_streams(
    kind: str, own: type, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "sessions":
        stream = opened("sessions", "a", "b")
    else:
        options = {"workers": 1} if kind == "workers" else {}
        query = "SELECT k, t, count(*) AS n FROM a GROUP BY k, t"
        stream = penstock.stream(query, {"a": SCHEMA}, time={"a": "t"}, **options)
    done = getattr(own, name)

    def fail(*args: Any, **more: Any) -> None:
        done(*args, **more)
        raise DataError("broken")

    with monkeypatch.context() as patched:
        patched.setattr(own, name, fail)
        with pytest.raises(DataError, match="broken"):  # noqa: PT012
            stream.push("a", ROWS)
            stream.advance("t" if kind == "sessions" else "a", 100)
    _is_over(stream)
    with pytest.raises(DataError, match="broken"):
        stream.close()


def test_a_device_is_closed_where_its_stream_cannot_be_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[bool] = []

    def remembered(name: str, **options: Any) -> Device:
        device, number = open_device(name, **options), len(closed)
        closed.append(False)
        close = device.close

        def note() -> None:
            close()
            closed[number] = True

        device.close = note
        return device

    monkeypatch.setattr("penstock.api.streams.open_device", remembered)
    with pytest.raises(UsageError, match="disorder is given for c"):
        penstock.stream(
            JOIN, {"a": SCHEMA, "b": SCHEMA}, time={"a": "t", "b": "t"}, disorder={"c": 1}
        )
    assert closed == [True]


def test_pairs_are_counted_from_two_threads() -> None:
    """A thread that adds while another one does waits for it."""

    class Slow(Stats):
        @property
        def pairs_pruned(self) -> int:
            count = self.__dict__.get("pruned", 0)
            if waiting := self.__dict__.pop("other", None):
                waiting.start()
                waiting.join(0.05)  # until it is done, or has come to wait
            return count

        @pairs_pruned.setter
        def pairs_pruned(self, count: int) -> None:
            self.__dict__["pruned"] = count

    stats = Slow("cpu")
    other = stats.__dict__["other"] = threading.Thread(target=stats.prune, args=(5,))
    stats.prune(3)
    other.join()
    assert stats.pairs_pruned == 8
