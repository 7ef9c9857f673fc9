-- source: https://github.com/0xqq/flink-sql-cookbook/blob/master/recipes/15/15_interval_joins.md
-- asks: Delay to shipment per carrier over the whole table: quartiles and the share over three hours
-- tables: orders, shipments
-- time: o=t, s=t
-- on: tables
-- oracle: spark
SELECT lower(trim(s.carrier)) AS carrier, percentile(timestampdiff(SECOND, o.t, s.t), array(0.25, 0.5, 0.75))[1] AS p50,
       percentile_cont(0.9) WITHIN GROUP (ORDER BY timestampdiff(SECOND, o.t, s.t)) AS p90,
       avg(IF(timestampdiff(SECOND, o.t, s.t) > 10800, 1, 0)) AS late_share, sum(s.weight) AS kg
FROM orders o JOIN shipments s ON s.order_id = o.order_id AND s.t BETWEEN o.t AND o.t + INTERVAL 8 HOURS
GROUP BY 1
ORDER BY carrier
