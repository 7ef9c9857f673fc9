-- source: https://bettingsidernorge.com/blog/correlating-dns-and-connection-logs
-- asks: Connections to an address that the client did not look up in the ten minutes before
-- tables: conns, dns
-- time: c=t, d=t
-- on: streams
-- oracle: spark
SELECT c.conn_id AS conn_id, c.src AS src, c.dst AS dst
FROM conns c
WHERE NOT EXISTS (SELECT 1 FROM dns d
                  WHERE d.client = c.src AND d.answer = c.dst
                    AND d.t BETWEEN c.t - INTERVAL 10 MINUTES AND c.t)
