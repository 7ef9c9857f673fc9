"""The engine for SQL of tables: it defines the macros that a text calls, and no others."""

from __future__ import annotations

from contextlib import closing

from penstock.host.relational.engine import RelationalEngine


def test_texts_that_look_like_macros():
    with closing(RelationalEngine(None)) as engine:
        found = engine.run("SELECT 'ps_own_nothing ps_nothing' AS ps_upper, ps_pow(2, 3) AS x", {})
    assert found.to_pylist() == [{"ps_upper": "ps_own_nothing ps_nothing", "x": 8.0}]
