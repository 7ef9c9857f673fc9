-- source: https://docs.ksqldb.io/developer-guide/joins/join-streams-and-tables
-- asks: Readable line per possible match: names trimmed and upper-cased, null riders as guest, plate without blanks
-- tables: rides, cabs
-- time: r=t, c=t
-- on: streams
-- oracle: spark
SELECT r.ride_id AS ride_id, c.ping_id AS ping_id,
       concat(upper(trim(coalesce(r.rider, 'guest'))), ' -> ', upper(trim(c.driver)), ' [', replace(c.plate, ' ', ''), ']') AS label,
       length(c.driver) AS len, lpad(CAST(c.cab_id AS STRING), 3, '0') AS cab
FROM rides r JOIN cabs c
  ON c.t BETWEEN r.t AND r.t + INTERVAL 2 MINUTES
 AND abs(r.lon - c.lon) + abs(r.lat - c.lat) < 0.06
