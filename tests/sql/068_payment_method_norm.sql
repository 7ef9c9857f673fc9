-- source: https://learn.microsoft.com/en-nz/stream-analytics-query/join-azure-stream-analytics
-- asks: Per method (normalised) and two-hour window: matched orders, share of exact amounts
-- tables: orders, payments
-- time: o=t, p=t
-- on: streams
-- oracle: spark
SELECT coalesce(lower(p.method), 'unknown') AS method, window(o.t, '2 hours').start AS w, count(*) AS n,
       avg(CASE WHEN p.paid = o.amount THEN 1.0 ELSE 0.0 END) AS exact_share, sum(p.paid) AS total
FROM orders o JOIN payments p ON p.order_id = o.order_id AND p.t BETWEEN o.t AND o.t + INTERVAL 2 HOURS
GROUP BY coalesce(lower(p.method), 'unknown'), window(o.t, '2 hours')
