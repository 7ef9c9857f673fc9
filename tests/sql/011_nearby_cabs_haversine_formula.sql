-- source: https://huggingface.co/datasets/nvidia/Nemotron-CC-Math-v1
-- asks: Cabs within 1.5 km (haversine written out) and 10 minutes of a request, with the distance in km
-- tables: rides, cabs
-- time: r=t, c=t
-- on: streams
-- oracle: spark
SELECT r.ride_id AS ride_id, c.ping_id AS ping_id,
       2 * 6371 * asin(sqrt(pow(sin(radians(c.lat - r.lat) / 2), 2)
         + cos(radians(r.lat)) * cos(radians(c.lat)) * pow(sin(radians(c.lon - r.lon) / 2), 2))) AS km
FROM rides r, cabs c
WHERE c.t BETWEEN r.t - INTERVAL 10 MINUTES AND r.t
  AND 2 * 6371 * asin(sqrt(pow(sin(radians(c.lat - r.lat) / 2), 2)
         + cos(radians(r.lat)) * cos(radians(c.lat)) * pow(sin(radians(c.lon - r.lon) / 2), 2))) < 1.5
