-- source: https://adriennevermorel.com/notes/sql-attribution-patterns/
-- asks: Revenue by campaign for orders up to three hours after a click (lookback window)
-- tables: clicks, orders
-- time: c=t, o=t
-- on: streams
-- oracle: spark
SELECT substring(c.url, instr(c.url, 'utm_campaign=') + 13) AS campaign,
       window(o.t, '1 hour').start AS hour, sum(o.amount) AS revenue, count(DISTINCT o.order_id) AS n_orders
FROM orders o JOIN clicks c
  ON c.usr = o.usr AND c.t BETWEEN o.t - INTERVAL 3 HOURS AND o.t
WHERE instr(c.url, 'utm_campaign=') > 0
GROUP BY campaign, hour
