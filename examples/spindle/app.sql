-- The power of CNC spindles: speed times torque. Both are published when they change, each by its own sensor,
-- so that no two records have the same time: each one is paired with its neighbours in the other series.
CREATE APPLICATION spindle_power;

CREATE INPUT TABLE speed (t TIMESTAMP, machine STRING, rpm DOUBLE)
FROM SCRIBE("spindle_speed") TIME t IN MILLISECONDS ORDERED;

CREATE INPUT TABLE torque (t TIMESTAMP, machine STRING, nm DOUBLE)
FROM SCRIBE("spindle_torque") TIME t IN MILLISECONDS ORDERED;

CREATE TABLE power AS
SELECT
  TIMESTAMP_MICROS(CAST((UNIX_MICROS(r.t) + UNIX_MICROS(s.t)) / 2 AS BIGINT)) AS t,
  r.machine AS machine, r.rpm AS rpm, s.nm AS nm,
  ROUND(r.rpm * s.nm * 0.10471975511965977, 3) AS watts
FROM speed AS r TIMESERIES JOIN torque AS s ON r.machine = s.machine WITHIN INTERVAL '10 seconds'
STORAGE SCRIBE(category = "spindle_power");
