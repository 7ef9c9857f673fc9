-- source: https://github.com/0xqq/flink-sql-cookbook/blob/master/recipes/15/15_interval_joins.md
-- asks: USING on the order number, the time bound in WHERE
-- tables: orders, payments
-- time: o=t, p=t
-- on: streams
-- oracle: spark
SELECT order_id, o.amount AS amount, p.paid AS paid, p.paid - o.amount AS diff
FROM orders o JOIN payments p USING (order_id)
WHERE p.t BETWEEN o.t AND o.t + INTERVAL 40 MINUTES AND p.paid <> o.amount
