"""What bench/hw rests on: kept results, and the projection."""

import pytest

from bench.store import Store, sources

pytest.importorskip("amaranth", reason="needs the rtl extra")

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


def test_projection():
    units = int(LUT_SHARE * 1_303_680 / 100)
    assert evaluations("u280", 100.0) == units * CLOCK_HZ
