-- One application with every kind of stage: slicers, joins of each kernel, a chain, and each kind of storage.
CREATE APPLICATION shop WITH (shards = 2, chunk_rows = 20, batch_rows = 50, idle_timeout = '1 hour');

-- Orders and deliveries come up to 20 seconds out of order, returns and prices in order. How far visits and
-- clicks are out of order is for Braid to find out: only an inner join, which calls no row late, reads them.
CREATE INPUT TABLE orders (id BIGINT, t TIMESTAMP, item STRING, customer BIGINT)
FROM SCRIBE("orders") TIME t IN MILLISECONDS ORDERED WITHIN INTERVAL '20 seconds';
CREATE INPUT TABLE deliveries (id BIGINT, t TIMESTAMP, item STRING, cost DOUBLE)
FROM SCRIBE("deliveries") TIME t IN MILLISECONDS ORDERED WITHIN INTERVAL '20 seconds';
CREATE INPUT TABLE returns (id BIGINT, t TIMESTAMP, item STRING, reason STRING)
FROM SCRIBE("returns") TIME t IN MILLISECONDS ORDERED;
CREATE INPUT TABLE prices (id BIGINT, t TIMESTAMP, item STRING, price DOUBLE)
FROM SCRIBE("prices") TIME t IN MILLISECONDS ORDERED;
CREATE INPUT TABLE visits (id BIGINT, t TIMESTAMP, customer BIGINT, page STRING)
FROM SCRIBE("visits") TIME t IN MILLISECONDS;
CREATE INPUT TABLE clicks (id BIGINT, t TIMESTAMP, customer BIGINT, ad STRING)
FROM SCRIBE("clicks") TIME t IN MILLISECONDS;

-- A chain: the second join reads what the first one writes.
CREATE TABLE tracked AS
SELECT o.id AS order_id, o.t AS ordered, d.id AS delivery_id, d.cost AS cost, r.id AS return_id, r.reason AS reason
FROM orders AS o
LEFT JOIN deliveries AS d ON d.item = o.item AND d.t BETWEEN o.t AND o.t + INTERVAL '60 seconds'
FULL JOIN returns AS r ON r.item = o.item AND
     r.t BETWEEN o.t - INTERVAL '10 seconds' AND o.t + INTERVAL '90 seconds'
STORAGE SCRIBE(category = "tracked");

CREATE TABLE priced AS
SELECT o.id AS order_id, p.id AS price_id, p.price AS price
FROM orders AS o ASOF LEFT JOIN prices AS p MATCH_CONDITION (o.t >= p.t)
ON o.item = p.item WITHIN INTERVAL '60 seconds'
STORAGE SCRIBE(category = "priced");

CREATE TABLE around AS
SELECT p.id AS price_id, d.id AS delivery_id
FROM prices AS p TIMESERIES JOIN deliveries AS d ON p.item = d.item WITHIN INTERVAL '40 seconds'
STORAGE SCRIBE(category = "around");

CREATE TABLE last_delivery AS
SELECT o.id AS order_id, d.id AS delivery_id
FROM orders AS o LEFT JOIN deliveries AS d ON d.item = o.item AND
     d.t BETWEEN o.t - INTERVAL '50 seconds' AND o.t + INTERVAL '50 seconds' MATCH LATEST
STORAGE SCRIBE(category = "last_delivery");

CREATE TABLE once AS
SELECT o.id AS order_id, r.id AS return_id
FROM orders AS o LEFT JOIN returns AS r ON r.item = o.item AND
     r.t BETWEEN o.t - INTERVAL '20 seconds' AND o.t + INTERVAL '40 seconds' MATCH FIRST CONSUME
STORAGE SCRIBE(category = "once");

-- Nobody waits for a hundred years, but the state says since when each row has been waiting.
CREATE TABLE patient AS
SELECT r.id AS return_id, o.id AS order_id
FROM returns AS r LEFT JOIN orders AS o ON o.item = r.item AND
     o.t BETWEEN r.t - INTERVAL '40 seconds' AND r.t + INTERVAL '40 seconds'
EMIT UNMATCHED AFTER INTERVAL '36500 days'
STORAGE SCRIBE(category = "patient");

CREATE TABLE together AS
SELECT p.id AS price_id, r.id AS return_id
FROM prices AS p LEFT JOIN returns AS r ON r.t BETWEEN p.t - INTERVAL '3 seconds' AND p.t + INTERVAL '6 seconds'
STORAGE SCRIBE(category = "together");

CREATE TABLE clicked AS
SELECT v.id AS visit_id, v.t AS t, v.page AS page, c.id AS click_id, c.ad AS ad
FROM visits AS v JOIN clicks AS c ON c.customer = v.customer AND
     c.t BETWEEN v.t - INTERVAL '5 seconds' AND v.t + INTERVAL '60 seconds'
STORAGE HIVE(table = "clicked", time = "t");

CREATE TABLE named AS
SELECT v.id AS visit_id, u.name AS name, u.country AS country
FROM visits AS v LEFT JOIN LOOKUP("customers") AS u ON u.customer = v.customer
STORAGE SCRIBE(category = "named");

CREATE TABLE last_price AS SELECT item, t, price FROM prices
STORAGE LASER(table = "last_price", key = (item));

CREATE TABLE seen AS SELECT id, page FROM visits WHERE page = 'home' STORAGE CONSOLE;
