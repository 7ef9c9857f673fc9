-- source: https://duckdb.org/docs/guides/sql_features/asof_join
-- asks: Value of each trade at the ask price as of its time (ASOF JOIN)
-- tables: trades, quotes
-- time: t=t, q=t
-- on: tables
-- oracle: duckdb
SELECT t.trade_id AS trade_id, t.sym AS sym, q.quote_id AS quote_id, q.ask * t.qty AS value
FROM trades t ASOF JOIN quotes q ON t.sym = q.sym AND t.t >= q.t
