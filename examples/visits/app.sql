-- Visits with what is known of the visitor, from a table that was loaded with
--   braid lookup load users examples/visits/users.csv --key user_id
-- and, for other applications, the last page that each visitor has seen: braid lookup get last_visit 3
CREATE APPLICATION known_visits;

CREATE INPUT TABLE visits (t TIMESTAMP, user_id BIGINT, page STRING) FROM SCRIBE("visits") TIME t;

CREATE TABLE named AS
SELECT v.t AS t, v.user_id AS user_id, v.page AS page, u.name AS name, u.country AS country
FROM visits AS v LEFT JOIN LOOKUP("users") AS u (user_id BIGINT, name STRING, country STRING)
ON u.user_id = v.user_id
STORAGE SCRIBE(category = "named_visits");

CREATE TABLE last_visit AS SELECT user_id, t, page FROM visits
STORAGE LASER(table = "last_visit", key = (user_id), ttl = '30 days');
