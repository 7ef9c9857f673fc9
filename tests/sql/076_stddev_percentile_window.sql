-- source: https://materialize.com/docs/guides/temporal-filters
-- asks: Delay until shipment in minutes per carrier and four-hour window: mean, standard deviation, median
-- tables: orders, shipments
-- time: o=t, s=t
-- on: streams
-- oracle: spark
SELECT upper(trim(s.carrier)) AS carrier, window(o.t, '4 hours').start AS w, count(*) AS n,
       avg(timestampdiff(SECOND, o.t, s.t) / 60.0D) AS mean_min, stddev_samp(timestampdiff(SECOND, o.t, s.t) / 60.0D) AS sd_min,
       percentile(timestampdiff(SECOND, o.t, s.t) / 60.0D, 0.5) AS median_min
FROM orders o JOIN shipments s ON s.order_id = o.order_id AND s.t BETWEEN o.t AND o.t + INTERVAL 6 HOURS
GROUP BY upper(trim(s.carrier)), window(o.t, '4 hours')
