-- source: https://github.com/apache/spark/commit/7520491bf80eb2e21f0630aa13d7cdaad881626b.diff
-- asks: All impressions with the clicks that follow within 20 minutes, if any; upper-case the site
-- tables: impressions, clicks
-- time: imp=t, clk=t
-- on: streams
-- oracle: spark
SELECT imp.imp_id AS imp_id, upper(imp.site) AS site, clk.click_id AS click_id,
       timestampdiff(SECOND, imp.t, clk.t) AS secs_to_click
FROM impressions imp LEFT OUTER JOIN clicks clk
  ON imp.ad_id = clk.ad_id AND imp.usr <=> clk.usr
 AND clk.t BETWEEN imp.t AND imp.t + INTERVAL 20 MINUTES
