-- source: https://huggingface.co/datasets/nvidia/Nemotron-CC-Math-v1
-- asks: Bounding box first, then exact haversine metres, five minutes, only free cabs with enough seats
-- tables: rides, cabs
-- time: r=t, c=t
-- on: streams
-- oracle: spark
SELECT r.ride_id AS ride_id, c.ping_id AS ping_id, haversine(r.lat, r.lon, c.lat, c.lon) AS m
FROM rides r JOIN cabs c
  ON c.lat BETWEEN r.lat - 0.02 AND r.lat + 0.02
 AND c.lon BETWEEN r.lon - 0.03 AND r.lon + 0.03
 AND c.t BETWEEN r.t - INTERVAL 5 MINUTES AND r.t + INTERVAL 5 MINUTES
WHERE c.free AND c.seats > r.passengers AND haversine(r.lat, r.lon, c.lat, c.lon) < 1800
