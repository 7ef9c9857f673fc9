-- source: http://searchoracle.techtarget.com/expert/KnowledgebaseAnswer/0,289625,sid41_gci1314428,00.html
-- asks: For every alert, the number of other alerts in the same room in the preceding half hour, zero included
-- tables: alerts
-- time: a=t, b=t
-- on: streams
-- oracle: spark
SELECT a.alert_id AS alert_id, count(b.alert_id) AS previous_alerts, max(b.severity) AS worst
FROM alerts a LEFT JOIN alerts b
  ON b.room = a.room AND b.t >= a.t - INTERVAL 30 MINUTES AND b.t < a.t
GROUP BY a.alert_id
