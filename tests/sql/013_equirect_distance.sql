-- source: https://huggingface.co/datasets/nvidia/Nemotron-CC-Math-v1
-- asks: Flat-earth distance in km below 1.2 within 8 minutes, driver names in upper case
-- tables: rides, cabs
-- time: r=t, c=t
-- on: streams
-- oracle: spark
SELECT r.ride_id AS ride_id, c.ping_id AS ping_id, upper(trim(c.driver)) AS driver,
       111.195 * sqrt(power(c.lat - r.lat, 2) + power(cos(pi() / 180 * r.lat) * (c.lon - r.lon), 2)) AS dist_in_km
FROM rides r JOIN cabs c
  ON abs(timestampdiff(SECOND, r.t, c.t)) <= 480
 AND 111.195 * sqrt(power(c.lat - r.lat, 2) + power(cos(pi() / 180 * r.lat) * (c.lon - r.lon), 2)) < 1.2
