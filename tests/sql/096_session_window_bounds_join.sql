-- source: http://ryanguill.com/postgresql/sql/2024/06/24/aggregating-event-data-into-sessions.html
-- asks: Sessions of impressions per user (15 minutes), clicks falling into the session, zero counted
-- tables: impressions, clicks
-- time: s=w, c=t
-- on: tables
-- oracle: spark
WITH s AS (
  SELECT usr, session_window(t, '15 minutes') AS w, count(*) AS shown FROM impressions WHERE usr IS NOT NULL
  GROUP BY usr, session_window(t, '15 minutes')
)
SELECT s.usr AS usr, s.w.start AS started, s.shown AS shown, count(c.click_id) AS clicks
FROM s LEFT JOIN clicks c ON c.usr = s.usr AND c.t >= s.w.start AND c.t < s.w.end
GROUP BY s.usr, s.w.start, s.shown
