-- source: https://bengribaudo.com/blog/2014/07/16/3164/sql-tip-multi-level-summary-computations
-- asks: Paid sums with subtotals per method and product family over the payments within two hours (ROLLUP)
-- tables: orders, payments
-- time: o=t, p=t
-- on: tables
-- oracle: spark
SELECT coalesce(lower(p.method), '?') AS method, split(upper(o.product), '-')[0] AS family,
       grouping_id() AS level, count(*) AS n, sum(p.paid) AS paid
FROM orders o JOIN payments p ON p.order_id = o.order_id AND p.t BETWEEN o.t AND o.t + INTERVAL 2 HOURS
GROUP BY ROLLUP (coalesce(lower(p.method), '?'), split(upper(o.product), '-')[0])
ORDER BY level, method, family
