-- source: https://datalemur.com/questions/repeated-payments
-- asks: Two payments by the same kind of method within 10 minutes with nearly the same sum
-- tables: payments
-- time: a=t, b=t
-- on: streams
-- oracle: spark
SELECT a.pay_id AS first_id, b.pay_id AS second_id, lower(a.method) AS method, b.paid - a.paid AS diff
FROM payments a JOIN payments b
  ON lower(a.method) = lower(b.method)
 AND b.t BETWEEN a.t AND a.t + INTERVAL 10 MINUTES
 AND a.pay_id <> b.pay_id
 AND abs(a.paid - b.paid) < 40
