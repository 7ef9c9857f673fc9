-- source: https://kiwix.lema.org/stackoverflow.com_en_all_2023-11/questions/25386934/kdb-selecting-data-around-time-of-certain-events-part2
-- asks: Sum and number of readings 10 minutes either side of each alert, zero where there are none
-- tables: alerts, readings
-- time: a=t, r=t
-- on: streams
-- oracle: spark
SELECT a.alert_id AS alert_id, a.room AS room, count(r.reading_id) AS n, coalesce(sum(r.hum), 0.0D) AS hum_sum
FROM alerts a LEFT JOIN readings r
  ON r.room = a.room AND r.t BETWEEN a.t - INTERVAL 10 MINUTES AND a.t + INTERVAL 10 MINUTES
GROUP BY a.alert_id, a.room
