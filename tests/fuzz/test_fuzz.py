"""The generator's coverage, its judgement, and a share of its queries with fixed seeds."""

from __future__ import annotations

import re
import runpy
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import campaign, check, twins
from tests.fuzz.__main__ import chunks
from tests.fuzz.campaign import Finding, Tally, run_seed, write_finding
from tests.fuzz.devices import BandAmaranth
from tests.fuzz.duck import Duck
from tests.fuzz.generate import random_case, random_query
from tests.fuzz.ledger import Entry, Ledger
from tests.fuzz.mode import Mode
from tests.fuzz.oracle import Oracle
from tests.fuzz.query import JOINS
from tests.penstock.kit.devices import InterpretingCpu

CPU_SEEDS = [range(first, first + 12) for first in range(0, 48, 12)]
"""Four parts, so that processes share them."""

TWIN_SEEDS = [range(6), range(6, 12)]

BAND_SEEDS = range(4)


@pytest.fixture(scope="module")
def duck() -> Iterator[Duck]:
    with Duck() as made:
        yield made


def failures(tally: Tally) -> str:
    """What was found, each with its query: empty where all is well."""
    return "\n".join(
        f"{f.title} {f.mode}: {f.outcome.what}\n{f.case.query.text()}" for f in tally.findings
    )


@pytest.mark.parametrize("seeds", CPU_SEEDS, ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}")
def test_random_queries_on_cpu(seeds: range, duck: Duck) -> None:
    tally = Tally()
    with InterpretingCpu() as device:
        for seed in seeds:
            run_seed(seed, device, tally, data_sets=8, duck=duck)
    assert not failures(tally)
    assert tally.counts["refused"] < 0.2 * tally.queries
    assert tally.counts["as streams"] > 0
    assert tally.counts["DuckDB"] > 0


def test_random_queries_of_the_band_form_on_amaranth() -> None:
    tally = Tally()
    with BandAmaranth() as device:
        for seed in BAND_SEEDS:
            run_seed(seed, device, tally, data_sets=8, band=True)
    assert not failures(tally)
    assert tally.counts["refused"] < 0.2 * tally.queries


def test_generator_reaches_every_kind_of_query() -> None:
    seen: Counter[str] = Counter()
    for seed in range(600):
        query, rng = random_query(seed)
        seen[query.join] += 1
        seen["within"] += query.within is not None
        seen["rows"] += query.rows is not None
        seen["rows in FROM"] += query.rows is not None and query.rows_text
        seen["subquery"] += any(query.layers)
        seen["nested subquery"] += any(len(layers) > 1 for layers in query.layers)
        seen["group"] += bool(query.group)
        seen["one group"] += query.aggregated and not query.group
        seen["distinct"] += query.distinct
        seen["having"] += query.having is not None
        seen["one table"] += query.same
        seen["few parentheses"] += query.bare
        seen["star"] += query.select is None
        seen["declared unit"] += query.times.declared != (None, None)
        seen["two units"] += query.times.columns[0].arrow != query.times.columns[1].arrow
        for part in query.expressions():
            for e in part.walk():
                seen[e.value if e.op == "agg" else e.op] += 1
        for side in query.columns:
            for column in side:
                seen[re.match("[a-z_0-9]+", str(column.arrow))[0]] += 1
        case = random_case(rng, query)
        times = [row[0] for rows in case.rows for row in rows if row and row[0] is not None]
        seen["end of time"] += any(t in (2**63 - 1, -(2**63)) for t in times)
        seen["empty table"] += not all(case.rows)
    operators = "add sub mul mod neg abs least greatest and_bits or_bits xor not_bits shl shr"
    operators += " eq ne lt le gt ge between in isnull notnull and or not case if cast startswith"
    operators += " like param lit trunc window window_start window_end"
    aggregates = "count count_if sum avg min max min_by max_by"
    kinds = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float double bool string binary"
    kinds += " decimal32 decimal64 decimal128 decimal256 date32 timestamp duration dictionary"
    others = ["within", "rows", "rows in FROM", "subquery", "nested subquery", "group", "one group"]
    others += ["distinct", "having", "star", "declared unit", "two units", "end of time"]
    others += ["empty table", "one table", "few parentheses"]
    wanted = [*JOINS, *operators.split(), *aggregates.split(), *kinds.split(), *others]
    assert [name for name in wanted if not seen[name]] == []


def test_a_wrong_row_is_found_and_its_script_reproduces_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = check.as_tables

    def without_a_row(case: Any, device: Any, mode: Mode) -> tuple[list[str], Any]:
        names, rows = right(case, device, mode)
        return names, rows[:-1]

    monkeypatch.setattr(check, "as_tables", without_a_row)
    tally = Tally()
    with InterpretingCpu() as device:
        for seed in range(20):
            run_seed(seed, device, tally, data_sets=3)
        wrong = [f for f in tally.findings if f.outcome.signature == "wrong rows"]
        assert len(wrong) >= 5
        path = write_finding(wrong[0], device, tmp_path, seconds=2)
    small = path.read_text()
    assert len(small) < 3000
    assert f"Seed {wrong[0].seed}, data set {wrong[0].at}." in small
    runpy.run_path(str(path))
    assert "pyarrow.Table" in capsys.readouterr().out


def test_minimised_stream_has_a_script_of_its_calls(tmp_path: Path) -> None:
    with InterpretingCpu() as device:
        for seed in range(100):
            query, rng = random_query(seed)
            case = random_case(rng, query)
            if query.aggregated or query.join != "inner" or not all(case.rows):
                continue
            outcome = check.check(case, Oracle(query), Mode(stream=seed), device)
            if outcome.kind == "ok":
                break
        finding = Finding(seed, 0, Mode(stream=seed), replace(outcome, kind="finding"), case)
        path = campaign.write_script(finding, case, outcome, tmp_path)
    assert "stream.push('l', batch)" in path.read_text()
    runpy.run_path(str(path))


def test_seeds_of_the_ledger_do_not_run_again(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger = Ledger(path)
    ledger.add(Entry("cpu", "v", 0, 25, {"queries": 500}))
    ledger.add(Entry("cpu", "v", 30, 40, {"queries": 200, "refused": 3}))
    ledger.add(Entry("rtl", "v", 0, 25, {"queries": 7}))
    ledger.add(Entry("cpu", "older", 25, 50, {"queries": 1000}))
    again = Ledger(path)
    assert again.total("cpu") == {"queries": 1700, "refused": 3}
    source = chunks(0, 10, again.done("cpu", "v"))
    assert [next(source) for _ in range(3)] == [(25, 30), (40, 50), (50, 60)]


@pytest.mark.parametrize("seeds", TWIN_SEEDS, ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}")
def test_twins_of_random_queries(seeds: range) -> None:
    sorts: Counter[str] = Counter()
    said = [line for seed in seeds for line in twins.findings(seed, sorts, 2)]
    assert len(said) >= len(seeds)
    assert not [line for line in said if line]


def test_a_twin_that_differs_is_found_and_shrunk() -> None:
    case = next(
        case
        for case in map(twins.random_case, range(100))
        if len(case.query.columns) > 1 and len(twins.answered(twins.plain, case).rows) > 1
    )
    wrong = {
        "rows": "SELECT * FROM ({}) x LIMIT 1",
        "types": "SELECT v0 IS NULL AS v0 FROM ({}) x",
        "refused": "SELECT v0 + no_such_function(1) AS v0 FROM ({}) x",
    }
    for what, form in wrong.items():
        twin = partial(twins.around, form)
        differ = twins.difference(case, what, twins.plain, twin)
        assert differ is not None
        assert differ.what == what
        less = twins.shrink(case, what, twins.plain, twin, differ.sort)
        assert less.tables["a"].num_rows < case.tables["a"].num_rows
