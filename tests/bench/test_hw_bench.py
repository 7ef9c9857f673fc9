"""What bench/hw rests on: kept results, tasks of a given selectivity, and verdicts."""

import numpy as np
import pytest

from bench.store import Store, sources

pytest.importorskip("amaranth", reason="needs the rtl extra")

from bench.hw.cycles import Run, _keys, _matches
from bench.hw.report import CLOCK_HZ, LUT_SHARE, evaluations


class TestStore:
    def test_measures_once(self, tmp_path):
        calls = []

        def measure():
            calls.append(1)
            return {"lut": len(calls)}

        store = Store(tmp_path)
        assert store.get({"units": 2}, "text", measure) == {"lut": 1}
        assert Store(tmp_path).get({"units": 2}, "text", measure) == {"lut": 1}
        assert store.get({"units": 2}, "other text", measure) == {"lut": 2}
        assert store.get({"units": 3}, "text", measure) == {"lut": 3}
        assert Store(tmp_path, again=True).get({"units": 2}, "text", measure) == {"lut": 4}

    def test_keeps_nothing_of_a_failure(self, tmp_path):
        store = Store(tmp_path / "new")
        with pytest.raises(ZeroDivisionError):
            store.get({}, "", lambda: 1 / 0)
        assert store.get({}, "", lambda: 7) == 7

    def test_sources_have_one_hash(self):
        assert sources() == sources()
        assert len(sources()) == 64


@pytest.mark.parametrize("selectivity", [0.0, 0.01, 0.25, 1.0])
def test_keys_match_as_often_as_asked(selectivity):
    run = Run(units=64, stream_tuples=64, window_tuples=5_000, selectivity=selectivity)
    stream, window = _keys(run)
    assert [len(column) for column in (*stream, *window)] == [64] * 4 + [5_000] * 2
    share = _matches(stream, window) / (64 * 5_000)
    if selectivity in (0.0, 1.0):
        assert share == selectivity
    else:
        assert share == pytest.approx(selectivity, rel=0.1)


def test_brute_force_counts_every_chunk():
    window = [np.arange(3_000, dtype=np.uint32)] * 2
    stream = [np.array([bound], np.uint32) for bound in (500, 2_499, 0, 1_999)]
    assert _matches(stream, window) == 1_500


def test_projection():
    units = int(LUT_SHARE * 1_303_680 / 100)
    assert evaluations("u280", 100.0) == units * CLOCK_HZ
