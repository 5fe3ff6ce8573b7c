CREATE APPLICATION sample_app;

CREATE INPUT TABLE left (eventtime, key, dim_one, metric) FROM SCRIBE("left");
CREATE INPUT TABLE right (eventtime, key, dim_two, dim_three) FROM SCRIBE("right");

CREATE VIEW joined_streams AS
SELECT l.eventtime AS eventtime, l.key AS key, l.dim_one AS dim_one, r.dim_two AS dim_two,
       COALESCE(r.dim_three, "example") AS dim_three, ABS(l.metric) AS metric
FROM left AS l LEFT OUTER JOIN right AS r
ON (l.key = r.key) AND
   (r.eventtime BETWEEN l.eventtime - INTERVAL '3 minutes' AND l.eventtime + INTERVAL '3 minutes');

CREATE TABLE result AS
SELECT eventtime, key, dim_one, dim_two, dim_three, metric FROM joined_streams
STORAGE SCRIBE (category = "result");
