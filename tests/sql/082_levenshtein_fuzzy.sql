-- source: https://interviewquery.com/p/sql-fuzzy-matching
-- asks: Riders and drivers with alike names (edit distance at most 2, or same sound) within ten minutes
-- tables: rides, cabs
-- time: r=t, c=t
-- on: streams
-- oracle: spark
SELECT r.ride_id AS ride_id, c.ping_id AS ping_id, levenshtein(lower(trim(r.rider)), lower(trim(c.driver))) AS edits,
       reverse(trim(r.rider)) AS rev
FROM rides r JOIN cabs c
  ON c.t BETWEEN r.t - INTERVAL 10 MINUTES AND r.t + INTERVAL 10 MINUTES
 AND (levenshtein(lower(trim(r.rider)), lower(trim(c.driver))) <= 2 OR soundex(trim(r.rider)) = soundex(trim(c.driver)))
