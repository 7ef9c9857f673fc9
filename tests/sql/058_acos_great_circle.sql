-- source: https://huggingface.co/datasets/nvidia/Nemotron-CC-Math-v1
-- asks: Great circle by the law of cosines (111.045 * degrees(acos(...))) below 2 km, within four minutes
-- tables: rides, cabs
-- time: r=t, c=t
-- on: streams
-- oracle: spark
SELECT r.ride_id AS ride_id, c.ping_id AS ping_id,
       111.045 * degrees(acos(least(1.0, cos(radians(r.lat)) * cos(radians(c.lat)) * cos(radians(r.lon) - radians(c.lon))
         + sin(radians(r.lat)) * sin(radians(c.lat))))) AS distance_in_km
FROM rides r JOIN cabs c
  ON c.t BETWEEN r.t - INTERVAL 4 MINUTES AND r.t + INTERVAL 4 MINUTES
WHERE 111.045 * degrees(acos(least(1.0, cos(radians(r.lat)) * cos(radians(c.lat)) * cos(radians(r.lon) - radians(c.lon))
         + sin(radians(r.lat)) * sin(radians(c.lat))))) < 2.0
