-- source: https://bitlabs506.pages.dev/posts/2023-09-17-comparing-duplicate-sales-orders-a-self-joining-approach-using-oracle-ctes
-- asks: Orders to the same country (after the comma) with the same first digit of the zip code within 30 minutes
-- tables: orders
-- time: a=t, b=t
-- on: streams
-- oracle: spark
SELECT a.order_id AS a_id, b.order_id AS b_id, trim(split(a.ship_to, ',')[1]) AS country,
       left(a.ship_to, 1) AS zip1
FROM orders a JOIN orders b
  ON a.order_id < b.order_id
 AND trim(split(a.ship_to, ',')[1]) = trim(split(b.ship_to, ',')[1])
 AND left(a.ship_to, 1) = left(b.ship_to, 1)
 AND b.t BETWEEN a.t AND a.t + INTERVAL 30 MINUTES
