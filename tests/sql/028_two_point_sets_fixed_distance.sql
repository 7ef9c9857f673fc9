-- source: https://learn.microsoft.com/en-au/azure/databricks/optimizations/range-join
-- asks: Two sets of points within a fixed distance in seconds of each other, and fahrenheit for one side
-- tables: readings, alerts
-- time: p1=t, p2=t
-- on: streams
-- oracle: spark
SELECT p1.reading_id AS p1, p2.alert_id AS p2, round(p1.temp * 9 / 5 + 32, 1) AS fahrenheit
FROM readings p1 JOIN alerts p2
  ON unix_seconds(p1.t) >= unix_seconds(p2.t) - 45 AND unix_seconds(p1.t) <= unix_seconds(p2.t) + 45
WHERE p1.temp IS NOT NULL
