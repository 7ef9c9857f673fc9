-- source: http://orhancanceylan.com/google/data/science/interview/2020/06/01/sql_google_first-touch-attribution.html
-- asks: First-touch channel per ordering user, within the window before the first order
-- tables: orders, clicks
-- time: f=t, c=t
-- on: tables
-- oracle: spark
WITH first_order AS (
  SELECT usr, min(t) AS t FROM orders GROUP BY usr
), touches AS (
  SELECT f.usr AS usr, c.url AS url,
         row_number() OVER (PARTITION BY f.usr ORDER BY c.t, c.click_id) AS rn
  FROM first_order f JOIN clicks c ON c.usr = f.usr AND c.t <= f.t AND c.t > f.t - INTERVAL 6 HOURS
)
SELECT usr, CASE WHEN url RLIKE 'utm_source=google' THEN 'google' WHEN url LIKE '%utm_source=%' THEN 'other' ELSE 'direct' END AS channel
FROM touches WHERE rn = 1
ORDER BY usr
