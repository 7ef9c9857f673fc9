"""What bench/window rests on, and the rates that the window join must hold."""

from dataclasses import replace

import numpy as np
import pytest

from bench.store import Store
from bench.window.formulas import (
    input_rate,
    output_cycles,
    output_cycles_as_printed,
    output_rate,
    processing_rate,
)
from penstock.errors import MissingToolError, PenstockError

pytest.importorskip("amaranth", reason="needs the rtl extra")

from bench.window.rates import Rates, Run, _check, _codes, _measure
from bench.window.report import FULL, TENTHS, TOLERANCE
from penstock.hw.window.layout import Side
from penstock.sim.verilated.compile_kernel import Tools


def missing():
    try:
        Tools.find()
    except MissingToolError as error:
        return str(error)
    return None


needs_verilator = pytest.mark.skipif(
    missing() is not None, reason=missing() or "all tools are there"
)


@pytest.fixture(scope="module")
def rates(tmp_path_factory):
    return Rates(Store(tmp_path_factory.mktemp("kept")))


def test_formulas():
    """The paper's own numbers: more than 1,000 tuples per second at ROWS 2^16 and 100 MHz."""
    assert input_rate(100e6, 1 << 16) == pytest.approx(1525.8, rel=1e-4)
    assert output_rate(100e6, 0.5) == 100e6
    assert output_cycles(1 << 15, 0.5, 1) == (1 << 15) + 2
    assert output_cycles(1 << 15, 1.0, 1) == 1 << 16
    assert output_cycles(1 << 15, 1.0, 2) == (1 << 15) + 2
    assert output_cycles(1 << 16, 0.001, 1, banks=64) == 1026
    assert output_cycles_as_printed(1 << 15, 0.5, 1) == 1 << 14
    assert processing_rate(50, 200) == 0.25
    assert processing_rate(300, 200) == 1.0


def test_the_text_of_the_paper_wants_the_larger_value():
    """At most 50 % fewer tuples where one result leaves per cycle; as printed there are more."""
    rows = 1 << 15
    least = min(processing_rate(rows + 2, output_cycles(rows, m / 10, 1)) for m in TENTHS)
    assert least == pytest.approx(0.5, rel=1e-3)
    assert all(output_cycles_as_printed(rows, m / 10, 1) <= rows for m in TENTHS)


@pytest.mark.parametrize("spread", ["even", "bunched"])
def test_selectivity_is_exact(spread):
    for hits in TENTHS:
        run = Run(depth=64, rows=64, hits=hits, spread=spread)
        hit = _codes(run, Side.A, 1000) < hits
        windows = np.lib.stride_tricks.sliding_window_view(hit, 10)
        assert (windows.sum(axis=1) == hits).all()


def test_random_matches_have_the_share():
    run = Run(depth=64, rows=64, hits=3, spread="random")
    shares = [np.mean(_codes(run, side, 20_000) < 3) for side in Side]
    assert shares == [pytest.approx(0.3, abs=0.02)] * 2
    assert shares[0] != shares[1]


@needs_verilator
class TestRates:
    def test_input_rate(self, rates):
        for rows in (1, 50, 512):
            found = rates.measure(Run(depth=512, rows=rows))
            assert found["cycles"] == found["longest"] == output_cycles(rows, 0, 1)
            assert found["admitted"] == 1

    @pytest.mark.parametrize("outputs", [1, 2])
    def test_processing_rate(self, rates, outputs):
        sweep(rates, 1 << 9, outputs, (0.25, 0.7, 1.0, 1.5, 4.0))

    @pytest.mark.slow
    @pytest.mark.parametrize("outputs", [1, 2])
    def test_processing_rate_of_the_paper(self, rates, outputs):
        """ROWS 2^15, every tenth of selectivity: about two hundred million cycles."""
        sweep(rates, FULL.rate_rows, outputs, FULL.intervals)

    def test_admission_by_count(self, rates):
        """By counting tuples it is the same share as by time, but for one at each end."""
        run = Run(depth=512, rows=512, hits=8, interval=257, tuples=100)
        found = rates.measure(run)
        share = run.interval / output_cycles(512, 0.8, 1)
        assert found["admitted"] == pytest.approx(share, rel=0.02)

    def test_bunched_matches_need_room(self, rates):
        """Half of the window matches, all in a row: the formula wants a port that never waits."""
        run = Run(depth=512, rows=512, hits=256, period=512, spread="bunched")
        assert rates.measure(run)["cycles"] / output_cycles(512, 0.5, 1) > 1.4

    @pytest.mark.slow
    def test_room_for_bunched_matches(self, rates):
        run = Run(depth=512, rows=512, hits=256, period=512, spread="bunched")
        long = rates.measure(replace(run, records=300))["cycles"]
        assert long == pytest.approx(output_cycles(512, 0.5, 1), rel=TOLERANCE)

    def test_a_missing_result_is_noticed(self, rates):
        run = Run(depth=512, rows=512, hits=5)
        rates.measure(run)
        join, _ = rates._joins[run.config]
        kept = []

        class Losing:
            config = join.config

            def run(self, *args, **kwargs):
                out = join.run(*args, **kwargs)
                kept.append(out)
                return replace(out, a=out.a[1:], b=out.b[1:], later=out.later[1:])

        with pytest.raises(PenstockError, match="the operator is wrong"):
            _measure(Losing(), run)
        hit = {side: _codes(run, side, 1000) < run.hits for side in Side}
        _check(run, kept[0], hit)


def sweep(rates, rows, outputs, intervals):
    """Shares admitted are within 1 % of the corrected formula."""
    for hits in TENTHS:
        for part in intervals:
            run = Run(
                depth=rows, rows=rows, outputs=outputs, hits=hits, interval=round(part * (rows + 2))
            )
            cycles = output_cycles(rows, run.selectivity, outputs)
            found = run.interval / rates.measure(run)["cycles"]
            assert found == pytest.approx(processing_rate(run.interval, cycles), rel=TOLERANCE), run
