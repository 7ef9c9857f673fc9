-- source: https://github.com/orgs/risingwavelabs/discussions/2311
-- asks: Orders and payments per half-hour window: number of matched orders and the money paid
-- tables: orders, payments
-- time: orders=t, payments=t
-- on: streams
-- oracle: spark
SELECT o.w.start AS win, count(DISTINCT o.order_id) AS orders, count(*) AS pays, sum(p.paid) AS paid
FROM (SELECT order_id, window(t, '30 minutes') AS w FROM orders) o
JOIN (SELECT order_id, paid, window(t, '30 minutes') AS w FROM payments WHERE ok) p
  ON o.order_id = p.order_id AND o.w = p.w
GROUP BY o.w.start
