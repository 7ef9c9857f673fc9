-- source: https://app.studyraid.com/en/read/15295/530348/correlating-events-across-security-tools
-- asks: A failed payment followed by a successful one for the same order within an hour
-- tables: payments
-- time: f=t, s=t
-- on: streams
-- oracle: spark
SELECT f.order_id AS order_id, f.pay_id AS failed_id, s.pay_id AS success_id,
       date_trunc('MINUTE', f.t) AS failed_minute
FROM payments f INNER JOIN payments s
  ON f.order_id = s.order_id AND s.t > f.t AND s.t <= f.t + INTERVAL 1 HOUR
WHERE NOT f.ok AND s.ok
