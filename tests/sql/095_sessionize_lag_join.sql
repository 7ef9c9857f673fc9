-- source: https://www.hisqlboy.com/blog/sessionization-grouping-events-sql
-- asks: Sessions of clicks (30 minutes of silence), joined with the orders placed during or an hour after
-- tables: clicks, orders
-- time: s=session_start, o=t
-- on: tables
-- oracle: spark
WITH flagged AS (
  SELECT usr, t, click_id,
         CASE WHEN unix_timestamp(t) - unix_timestamp(lag(t) OVER (PARTITION BY usr ORDER BY t, click_id)) <= 1800 THEN 0 ELSE 1 END AS is_new
  FROM clicks WHERE usr IS NOT NULL
), numbered AS (
  SELECT *, sum(is_new) OVER (PARTITION BY usr ORDER BY t, click_id ROWS UNBOUNDED PRECEDING) AS session_no FROM flagged
), sessions AS (
  SELECT usr, session_no, min(t) AS session_start, max(t) AS session_end, count(*) AS clicks FROM numbered GROUP BY usr, session_no
)
SELECT s.usr AS usr, s.session_no AS session_no, s.clicks AS clicks, o.order_id AS order_id
FROM sessions s JOIN orders o ON o.usr = s.usr AND o.t BETWEEN s.session_start AND s.session_end + INTERVAL 1 HOUR
