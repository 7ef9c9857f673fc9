"""Routing tables: where rows are stored and where they probe, and their records."""

from __future__ import annotations

import copy
import json
from fractions import Fraction
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import DataError, UsageError
from penstock.host.routing.moves_plan import plan
from penstock.host.routing.table import RoutingTable
from tests.host.routing.kit import any_loads, held


@st.composite
def any_table(draw: st.DrawFn) -> RoutingTable:
    """Any cells whole or split, at home or not, with any shares."""
    lanes = draw(st.integers(1, 7))
    lane = st.integers(0, lanes - 1)
    homes = draw(st.lists(lane, min_size=1, max_size=20))
    cells = sorted(draw(st.sets(st.integers(0, len(homes) - 1))))
    parts = [sorted(draw(st.sets(lane, min_size=1))) for _ in cells]
    weight = st.one_of(st.integers(0, 20), st.integers(0, 1 << 50))
    weights = [[draw(weight) for _ in some] for some in parts]
    offsets = np.cumsum([0, *map(len, parts)])
    return RoutingTable(homes, lanes, cells, offsets, [*chain(*parts)], [*chain(*weights)])


def shares(table: RoutingTable, cell: int) -> dict[int, Fraction]:
    """The share of each lane in a cell, from the table's arrays."""
    if cell not in table.cells.tolist():
        return {int(table.homes[cell]): Fraction(1)}
    at = table.cells.tolist().index(cell)
    begin, end = table.offsets[at : at + 2].tolist()
    weights = table.weights[begin:end].tolist()
    return {
        lane: Fraction(weight, sum(weights))
        for lane, weight in zip(table.parts[begin:end].tolist(), weights, strict=True)
    }


def lists(found: tuple[np.ndarray, np.ndarray]) -> list[list[int]]:
    """The lanes of each row."""
    offsets, lanes = found
    assert offsets[0] == 0
    assert offsets[-1] == len(lanes)
    ends = zip(offsets.tolist(), offsets[1:].tolist(), strict=False)
    return [lanes[begin:end].tolist() for begin, end in ends]


@settings(max_examples=200, deadline=None)
@given(any_table(), st.data())
def test_rows_are_dealt_by_shares_to_one_row(table, data):
    counts = [data.draw(st.integers(0, 40)) for _ in table.homes]
    rows = [(cell, row) for cell, count in enumerate(counts) for row in range(count)]
    rows = data.draw(st.permutations(rows))
    cells, ordinals = np.array(rows, np.int64).reshape(-1, 2).T
    lanes = table.store(cells, ordinals, np.array(counts)[cells])
    for cell, count in enumerate(counts):
        mine = lanes[cells == cell].tolist()
        due = shares(table, cell)
        assert set(mine) <= set(due)
        for lane, share in due.items():
            assert abs(mine.count(lane) - share * count) < 1
    again = table.store(cells, ordinals, np.array(counts)[cells])
    assert np.array_equal(lanes, again)


@settings(max_examples=100, deadline=None)
@given(any_loads(), st.sampled_from([0, 0.1]), st.sampled_from(["mnrt", "qmmp"]))
def test_a_cell_with_its_planned_load_is_dealt_as_planned(loads, tolerance, planner):
    made = plan(loads, tolerance, planner)
    for key, there in held(made.loads).items():
        total = sum(there.values())
        if 0 < total < 2000:
            lanes = made.table.store(np.full(total, key), np.arange(total))
            found = np.bincount(lanes, minlength=loads.lanes).tolist()
            assert found == [there.get(lane, 0) for lane in range(loads.lanes)]


def test_ordinals_beyond_the_planned_load_begin_again():
    table = RoutingTable([0, 0], 3, [1], [0, 3], [0, 1, 2], [1, 2, 3])
    lanes = table.store(np.ones(12, int), np.arange(12))
    assert lanes.tolist() == [0, 1, 1, 2, 2, 2] * 2


def test_shares_of_large_weights_are_exact():
    most = (1 << 62) - 1
    table = RoutingTable([0], 2, [0], [0, 2], [0, 1], [most, most])
    count = most * 2
    at = np.array([0, most - 1, most, count - 1])
    assert table.store(np.zeros(4, int), at, np.full(4, count)).tolist() == [0, 0, 1, 1]


@settings(max_examples=200, deadline=None)
@given(any_table(), st.data())
def test_equal_keys_meet_wherever_they_are_stored(table, data):
    cell = st.integers(0, len(table.homes) - 1)
    cells = np.array(data.draw(st.lists(cell, max_size=30)), np.int64)
    visits = lists(table.probe(cells))
    assert visits == [sorted(shares(table, each)) for each in cells.tolist()]
    stored = table.store(cells, np.arange(len(cells)))
    assert all(lane in visited for lane, visited in zip(stored.tolist(), visits, strict=True))


@settings(max_examples=200, deadline=None)
@given(any_table(), st.data())
def test_bands_reach_all_lanes_of_their_cells_once(table, data):
    edge = st.integers(-2, len(table.homes) + 1)
    ranges = np.array(data.draw(st.lists(st.tuples(edge, edge))), np.int64).reshape(-1, 2)
    visits = lists(table.reach(ranges[:, 0], ranges[:, 1]))
    for (low, high), found in zip(ranges.tolist(), visits, strict=True):
        cells = [cell for cell in range(low, high + 1) if 0 <= cell < len(table.homes)]
        assert found == sorted({lane for cell in cells for lane in shares(table, cell)})


@settings(max_examples=200, deadline=None)
@given(any_table(), st.data())
def test_loads_lie_where_the_table_sends_them(table, data):
    amount = st.integers(0, 1000)
    load, size = ([data.draw(amount) for _ in table.homes] for _ in range(2))
    loads = table.loads(load, size)
    for cell, there in held(loads).items():
        due = shares(table, cell)
        assert set(there) == set(due)
        assert sum(there.values()) == load[cell]
        assert all(abs(there[lane] - share * load[cell]) < 1 for lane, share in due.items())
    assert sum(loads.size.tolist()) == sum(size)
    assert RoutingTable.from_loads(loads).split.tolist() == table.split.tolist()


@settings(max_examples=200, deadline=None)
@given(any_table())
def test_a_record_gives_the_same_table(table):
    record = json.loads(json.dumps(table.to_json()))
    assert RoutingTable.from_json(record, table.homes) == table


def test_tables_differ():
    table = RoutingTable([0, 1], 2, [0], [0, 2], [0, 1], [1, 2])
    assert table != RoutingTable([0, 1], 2, [0], [0, 2], [0, 1], [2, 1])
    assert table != RoutingTable([0, 0], 2, [0], [0, 2], [0, 1], [1, 2])
    assert table != RoutingTable([0, 1], 3, [0], [0, 2], [0, 1], [1, 2])
    assert table != "a table"


_RECORD = RoutingTable([0, 1, 1, 0], 3, [1, 3], [0, 2, 3], [0, 2, 1], [5, 6, 1]).to_json()


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_damaged_records_give_a_right_table_or_an_error(data):
    record = copy.deepcopy(_RECORD)
    wrong = st.one_of(
        st.none(), st.integers(-3, 5), st.just(1 << 70), st.text(max_size=3), st.floats(),
        st.booleans(), st.lists(st.one_of(st.integers(-3, 9), st.just(1 << 63), st.none())),
    )  # fmt: skip
    name = data.draw(st.sampled_from(sorted(record)))
    values = record[name]
    kind = data.draw(st.sampled_from(["lost", "other", "one", "cut", "longer"]))
    if kind == "lost":
        del record[name]
    elif kind == "other" or not isinstance(values, list) or not values:
        record[name] = data.draw(wrong)
    elif kind == "one":
        values[data.draw(st.integers(0, len(values) - 1))] = data.draw(wrong)
    elif kind == "cut":
        values.pop()
    else:
        values.append(data.draw(wrong))
    try:
        table = RoutingTable.from_json(record, [0, 1, 1, 0])
    except (DataError, UsageError):
        return
    assert (np.diff(table.cells) > 0).all()
    assert (table.weights >= 0).all()
    for found in lists(table.probe(np.arange(4))):
        assert found == sorted(set(found)) != []
        assert set(found) <= {0, 1, 2}


@pytest.mark.parametrize("record", [None, [], "x", {}, {"format": 1}, {**_RECORD, "format": 2}])
def test_what_is_no_record_is_refused(record):
    with pytest.raises(DataError, match="start without it"):
        RoutingTable.from_json(record, [0, 1, 1, 0])


def test_a_record_of_other_cells_is_refused():
    with pytest.raises(DataError, match="other cells"):
        RoutingTable.from_json(_RECORD, [0, 1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 3], 2), "home 3 is unknown"),
        (([0], 0), "0 lanes"),
        (([0, 0], 2, [2], [0, 1], [0], [1]), "cell 2 is unknown"),
        (([0, 0], 2, [1], [0, 1], [2], [1]), "lane 2 is unknown"),
        (([0, 0], 2, [1, 1], [0, 1, 2], [0, 0], [1, 1]), "each cell once"),
        (([0, 0], 2, [1, 0], [0, 1, 2], [0, 0], [1, 1]), "each cell once"),
        (([0, 0], 2, [0, 1], [0, 0, 1], [0], [1]), "one lane or more"),
        (([0, 0], 2, [0], [0, 2], [1, 1], [1, 1]), "each lane once"),
        (([0, 0], 2, [0], [0, 2], [0, 1], [1]), "parts are not theirs"),
        (([0, 0], 2, [0], [0, 2], [0, 1], [1, -1]), "weight -1 is negative"),
    ],
)
def test_wrong_tables_are_refused(arguments, message):
    with pytest.raises((DataError, UsageError), match=message):
        RoutingTable(*arguments)


def test_wrong_rows_are_refused():
    table = RoutingTable([0, 0], 2, [0], [0, 2], [0, 1], [1, 1])
    one = np.ones(1, np.int64)
    with pytest.raises(DataError, match="cell 2 is unknown"):
        table.probe(2 * one)
    with pytest.raises(DataError, match="ordinal -1 is negative"):
        table.store(0 * one, -one)
    with pytest.raises(DataError, match="row 3 of cell 0 is beyond its 3 rows"):
        table.store(0 * one, 3 * one, 3 * one)
    with pytest.raises(DataError, match="one of each per cell"):
        table.loads([1])
