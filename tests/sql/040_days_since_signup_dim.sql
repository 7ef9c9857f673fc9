-- source: https://adriennevermorel.com/articles/sql-attribution-first-touch-last-touch-linear
-- asks: Clicks within ten minutes with user attributes from a dimension table: account age in days, mail domain
-- tables: impressions, clicks, users
-- time: i=t, c=t
-- on: streams
-- oracle: spark
SELECT c.click_id AS click_id, i.imp_id AS imp_id, datediff(to_date(c.t), u.signup) AS account_days,
       lower(split(u.email, '@')[1]) AS domain, coalesce(upper(u.country), '??') AS country
FROM impressions i
JOIN clicks c ON c.ad_id = i.ad_id AND c.usr = i.usr AND c.t BETWEEN i.t AND i.t + INTERVAL 10 MINUTES
JOIN users u ON u.usr = c.usr
