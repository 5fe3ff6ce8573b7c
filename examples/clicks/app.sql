-- One click for one impression: a click is counted for the first impression before it that has none yet,
-- so that two impressions of an ad to the same user do not share a click.
CREATE APPLICATION ad_clicks;

CREATE INPUT TABLE impressions (t TIMESTAMP, user_id BIGINT, ad BIGINT, id BIGINT) FROM SCRIBE("impressions") TIME t;
CREATE INPUT TABLE clicks (t TIMESTAMP, user_id BIGINT, ad BIGINT, id BIGINT) FROM SCRIBE("clicks") TIME t;

CREATE TABLE paid AS
SELECT i.id AS impression, c.id AS click, i.t AS shown, c.t AS clicked
FROM impressions AS i LEFT JOIN clicks AS c
ON i.user_id = c.user_id AND i.ad = c.ad AND c.t BETWEEN i.t AND i.t + INTERVAL '10 minutes'
MATCH FIRST CONSUME
STORAGE SCRIBE(category = "paid_clicks");
