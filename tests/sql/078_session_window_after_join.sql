-- source: https://docs.risingwave.com/docs/current/sql-function-time-window/
-- asks: Sessions (gap two minutes) per client of connections that followed a look-up within a minute
-- tables: dns, conns
-- time: d=t, c=t
-- on: streams
-- oracle: spark
SELECT src, session_window.start AS session_start, session_window.end AS session_end, count(*) AS n, sum(bytes) AS bytes
FROM (SELECT c.src AS src, c.t AS t, c.bytes AS bytes
      FROM dns d JOIN conns c ON c.src = d.client AND c.dst = d.answer
       AND c.t BETWEEN d.t AND d.t + INTERVAL 1 MINUTE)
GROUP BY src, session_window(t, '2 minutes')
