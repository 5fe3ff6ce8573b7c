-- Search sessions: what clients did with the results of their searches, joined to the requests on the servers.
-- Clients report minutes to hours late and out of order; servers report in order, within seconds.
CREATE APPLICATION search_sessions WITH (chunk_rows = 5000, batch_rows = 40000);

CREATE INPUT TABLE client_events (event_time TIMESTAMP, request_id BIGINT, action STRING, position INT)
FROM SCRIBE("client_events") TIME event_time IN MICROSECONDS;

CREATE INPUT TABLE requests (event_time TIMESTAMP, request_id BIGINT, query STRING, latency_ms DOUBLE)
FROM SCRIBE("requests") TIME event_time IN MICROSECONDS;

CREATE VIEW sessions AS
SELECT
  c.event_time AS event_time, c.request_id AS request_id, c.action AS action, c.position AS position,
  COALESCE(r.query, "unknown") AS query, ROUND(r.latency_ms, 1) AS latency_ms,
  r.request_id IS NOT NULL AS matched
FROM client_events AS c LEFT OUTER JOIN requests AS r
ON c.request_id = r.request_id AND
   r.event_time BETWEEN c.event_time - INTERVAL '15 minutes' AND c.event_time + INTERVAL '1 minute';

CREATE TABLE search_results AS
SELECT event_time, request_id, action, position, query, latency_ms, matched FROM sessions
STORAGE SCRIBE(category = "search_results");
