"""Ranges of window positions, and which rows are on time, against the definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.host.windows.feeds import Admission
from penstock.plan.ranges import place, shifted, time_ranges
from penstock.plan.window import FOREVER, NEVER, RowsWindow
from tests.kit.effort import examples

LEAST, MOST = -(1 << 63), (1 << 63) - 1
TIMES = st.lists(st.integers(-6, 6) | st.sampled_from([LEAST, MOST, MOST - 1]), max_size=12)
FAR = (LEAST, MOST, LEAST + 1, 1 << 63, MOST - LEAST, LEAST - MOST, 1 << 64, 1 << 70, -(1 << 70))
OFFSET = st.none() | st.integers(-5, 5) | st.sampled_from(FAR)


def times(values: list[int]) -> np.ndarray:
    return np.array(values, dtype=np.int64)


@settings(max_examples=examples(100), deadline=None)
@given(TIMES, TIMES, OFFSET, OFFSET)
def test_time_ranges(stream: list, window: list, low: int | None, high: int | None) -> None:
    stream, window = sorted(stream), sorted(window)
    start, end = time_ranges(times(stream), times(window), low, high)
    assert (start <= end).all()
    for bounds in (start, end):
        assert (np.diff(bounds) >= 0).all()
    for i, s in enumerate(stream):
        for j, w in enumerate(window):
            wanted = (low is None or w - s >= low) and (high is None or w - s <= high)
            assert (start[i] <= j < end[i]) == wanted


@settings(max_examples=examples(100), deadline=None)
@given(TIMES, st.integers(-6, 6) | st.sampled_from([NEVER, MOST, FOREVER, NEVER - 1, 1 << 70]))
def test_places_of_any_moment(values: list, moment: int) -> None:
    ascending = times(sorted(values))
    assert place(ascending, moment) == sum(v < moment for v in values)
    assert place(ascending, moment, after=True) == sum(v <= moment for v in values)


@settings(max_examples=examples(100), deadline=None)
@given(TIMES, st.integers(-(1 << 70), 1 << 70))
def test_shifting_stops_at_the_ends(values: list, by: int) -> None:
    wanted = [min(max(v + by, LEAST), MOST) for v in values]
    assert shifted(times(values), by).tolist() == wanted


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(st.integers(0, 5), max_size=9),
    st.lists(st.integers(0, 5), max_size=9),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.integers(0, 20),
)
def test_rows_window(left: list, right: list, sizes: tuple[int, int], cut: int) -> None:
    window = RowsWindow(*sizes)
    numbers = window.moments({"l": times(sorted(left)), "r": times(sorted(right))})
    # Left rows come first among those of one time.
    order = sorted([(t, s) for s, ts in (("l", left), ("r", right)) for t in ts])
    for side in "lr":
        assert numbers[side].tolist() == [n for n, (_, s) in enumerate(order) if s == side]
    # A pair is met where its later row arrives.
    latest = {s: [numbers[s][numbers[s] < n][-window.size(s) :] for n in range(20)] for s in "lr"}
    for side, opposite in ("lr", "rl"):
        others = numbers[opposite]
        start, end = window.ranges(opposite, numbers[side], others)
        first, last = window.met(side, numbers)
        for k, n in enumerate(numbers[side].tolist()):
            assert others[start[k] : end[k]].tolist() == latest[opposite][n].tolist()
            later = [m for m in others.tolist() if m > n and n in latest[side][m]]
            assert others[first[k] : last[k]].tolist() == [*latest[opposite][n].tolist(), *later]
        needed = latest[opposite][min(cut, 19)]
        count = window.expired(opposite, others, min(cut, 19))
        assert others[count:][: len(needed)].tolist() == needed.tolist()
        count = window.closed(side, len(numbers[side]), is_over=False)
        assert numbers[side][count:].tolist() == numbers[side][-window.size(side) :].tolist()


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(st.integers(0, 20) | st.just(("signal", 12)), max_size=25),
    st.integers(0, 6),
    st.integers(1, 7),
)
def test_lateness_does_not_depend_on_the_cut(events: list, disorder: int, cut: int) -> None:
    wanted, watermark = [], NEVER
    for event in events:
        if isinstance(event, tuple):
            watermark = max(watermark, event[1])
            continue
        wanted.append(event >= watermark)
        watermark = max(watermark, event - disorder)
    whole = Admission(disorder)
    found, waiting = [], []
    for k, event in enumerate(events):
        if isinstance(event, tuple):
            found += whole.admit(times(waiting)).tolist()
            waiting = []
            whole.signal(event[1])
        else:
            waiting.append(event)
            if k % cut == 0:
                found += whole.admit(times(waiting)).tolist()
                waiting = []
    found += whole.admit(times(waiting)).tolist()
    assert found == wanted
    assert (whole.arrived, whole.late) == (len(wanted), wanted.count(False))
    assert whole.watermark == watermark


@pytest.mark.parametrize("time", [NEVER, MOST, -5])
def test_times_at_the_ends_do_not_wrap(time: int) -> None:
    admission = Admission(1 << 40)
    assert admission.admit(times([time])).all()
    assert admission.admit(times([MOST])).all()
    assert admission.watermark == MOST - (1 << 40)


def test_the_last_time_is_not_the_end() -> None:
    admission = Admission(0)
    assert admission.admit(times([MOST])).all()
    assert admission.watermark == MOST < FOREVER
    assert admission.admit(times([MOST, MOST - 1, MOST])).tolist() == [True, False, True]
    admission.signal(FOREVER)
    assert not admission.admit(times([MOST, LEAST])).any()
    assert (admission.arrived, admission.late) == (6, 3)
