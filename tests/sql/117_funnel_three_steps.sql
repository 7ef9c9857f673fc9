-- source: https://rahulpedduri.github.io/2017/10/23/time-range-join.html
-- asks: Funnel: users who saw an ad, clicked it within half an hour and ordered within two hours of the click
-- tables: impressions, clicks, orders
-- time: i=t, c=t, o=t
-- on: tables
-- oracle: spark
SELECT count(DISTINCT i.usr) AS saw, count(DISTINCT c.usr) AS clicked, count(DISTINCT o.usr) AS ordered,
       round(count(DISTINCT o.usr) / count(DISTINCT i.usr), 4) AS conversion
FROM impressions i
LEFT JOIN clicks c ON c.usr = i.usr AND c.ad_id = i.ad_id AND c.t BETWEEN i.t AND i.t + INTERVAL 30 MINUTES
LEFT JOIN orders o ON o.usr = c.usr AND o.t BETWEEN c.t AND c.t + INTERVAL 2 HOURS
