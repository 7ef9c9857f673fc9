-- source: https://www.timescale.com/blog/select-the-most-recent-record-of-many-items-with-postgresql/
-- asks: Keep only the latest payment of every order, then shipments within four hours after it
-- tables: payments, shipments
-- time: l=t, s=t
-- on: tables
-- oracle: spark
WITH last_pay AS (
  SELECT * FROM (SELECT p.*, row_number() OVER (PARTITION BY order_id ORDER BY t DESC, pay_id DESC) AS rn
                 FROM payments p WHERE order_id IS NOT NULL) WHERE rn = 1
)
SELECT l.order_id AS order_id, l.pay_id AS pay_id, s.ship_id AS ship_id, l.paid AS paid
FROM last_pay l JOIN shipments s ON s.order_id = l.order_id AND s.t BETWEEN l.t AND l.t + INTERVAL 4 HOURS
