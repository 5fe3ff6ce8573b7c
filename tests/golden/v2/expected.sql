-- What the application has stored in the end, for DuckDB: the same questions about all that was published.
-- A record that is no JSON, or has no number as `id`, is a dead letter; a time that is no number is NULL. One without
-- anything but a time is a dead letter, too, but takes part as one with NULL everywhere else.
CREATE MACRO published(category) AS TABLE
SELECT make_timestamptz(t * 1000) AS t, * EXCEPT (t)
FROM read_json('*/' || category || '.jsonl', format = 'newline_delimited', ignore_errors = true, columns = {
  id: 'BIGINT', t: 'BIGINT', item: 'VARCHAR', customer: 'BIGINT', cost: 'DOUBLE', reason: 'VARCHAR',
  price: 'DOUBLE', page: 'VARCHAR', ad: 'VARCHAR'}, filename = 'file')
WHERE id IS NOT NULL OR (t IS NOT NULL AND item IS NULL AND customer IS NULL);

CREATE TABLE orders AS FROM published('orders');
CREATE TABLE deliveries AS FROM published('deliveries');
CREATE TABLE returns AS FROM published('returns');
CREATE TABLE prices AS FROM published('prices');
CREATE TABLE visits AS FROM published('visits');
CREATE TABLE clicks AS FROM published('clicks');
CREATE TABLE customers AS FROM 'customers.csv';

CREATE VIEW tracked AS
SELECT o.id AS order_id, o.t AS ordered, d.id AS delivery_id, d.cost AS cost, r.id AS return_id, r.reason AS reason
FROM orders AS o
LEFT JOIN deliveries AS d ON d.item = o.item AND d.t BETWEEN o.t AND o.t + INTERVAL '60 seconds'
FULL JOIN returns AS r ON r.item = o.item AND
     r.t BETWEEN o.t - INTERVAL '10 seconds' AND o.t + INTERVAL '90 seconds';

CREATE VIEW priced AS
SELECT o.id AS order_id, IF(near, p.id, NULL) AS price_id, IF(near, p.price, NULL) AS price
FROM orders AS o ASOF LEFT JOIN prices AS p ON o.item = p.item AND o.t >= p.t,
LATERAL (SELECT p.t >= o.t - INTERVAL '60 seconds' AS near);

-- Every price with the deliveries just before and after it, and every delivery with the prices, each pair once.
CREATE VIEW around AS
SELECT price_id, delivery_id FROM (
  SELECT p.id AS price_id, d.id AS delivery_id, p.t AS a, d.t AS b
  FROM prices AS p ASOF JOIN deliveries AS d ON p.item = d.item AND p.t >= d.t
  UNION
  SELECT p.id, d.id, p.t, d.t FROM prices AS p ASOF JOIN deliveries AS d ON p.item = d.item AND p.t < d.t
  UNION
  SELECT p.id, d.id, p.t, d.t FROM deliveries AS d ASOF JOIN prices AS p ON p.item = d.item AND d.t >= p.t
  UNION
  SELECT p.id, d.id, p.t, d.t FROM deliveries AS d ASOF JOIN prices AS p ON p.item = d.item AND d.t < p.t
) WHERE b BETWEEN a - INTERVAL '40 seconds' AND a + INTERVAL '40 seconds';

CREATE VIEW last_delivery AS
SELECT o.id AS order_id, arg_max(d.id, d.t) AS delivery_id
FROM orders AS o LEFT JOIN deliveries AS d ON d.item = o.item AND
     d.t BETWEEN o.t - INTERVAL '50 seconds' AND o.t + INTERVAL '50 seconds'
GROUP BY o.id;

-- Order by order, the first return that none before it has taken.
CREATE VIEW once AS
WITH RECURSIVE turns AS (
  SELECT *, row_number() OVER (ORDER BY t NULLS LAST) AS turn FROM orders
), chosen(turn, order_id, return_id, taken) AS (
  SELECT 0::BIGINT, NULL::BIGINT, NULL::BIGINT, []::BIGINT[]
  UNION ALL
  SELECT turn, order_id, return_id, list_append(taken, return_id) FROM (
    SELECT o.turn AS turn, o.id AS order_id, any_value(c.taken) AS taken, arg_min(r.id, r.t) AS return_id
    FROM chosen AS c JOIN turns AS o ON o.turn = c.turn + 1
    LEFT JOIN returns AS r ON r.item = o.item AND NOT list_contains(c.taken, r.id) AND
         r.t BETWEEN o.t - INTERVAL '20 seconds' AND o.t + INTERVAL '40 seconds'
    GROUP BY o.turn, o.id
  )
)
SELECT order_id, return_id FROM chosen WHERE turn > 0;

CREATE VIEW patient AS
SELECT r.id AS return_id, o.id AS order_id
FROM returns AS r LEFT JOIN orders AS o ON o.item = r.item AND
     o.t BETWEEN r.t - INTERVAL '40 seconds' AND r.t + INTERVAL '40 seconds';

CREATE VIEW together AS
SELECT p.id AS price_id, r.id AS return_id
FROM prices AS p LEFT JOIN returns AS r ON
     r.t BETWEEN p.t - INTERVAL '3 seconds' AND p.t + INTERVAL '6 seconds';

CREATE VIEW clicked AS
SELECT v.id AS visit_id, v.t AS t, v.page AS page, c.id AS click_id, c.ad AS ad
FROM visits AS v JOIN clicks AS c ON c.customer = v.customer AND
     c.t BETWEEN v.t - INTERVAL '5 seconds' AND v.t + INTERVAL '60 seconds';

CREATE VIEW named AS
SELECT v.id AS visit_id, u.name AS name, u.country AS country
FROM visits AS v LEFT JOIN customers AS u ON u.customer = v.customer;

CREATE VIEW last_price AS
SELECT item, max(t) AS t, arg_max(price, t) AS price FROM prices WHERE item IS NOT NULL GROUP BY item;

-- Printed, and so once only: what had come before the stop was printed then.
CREATE VIEW seen AS SELECT id, page FROM visits WHERE page = 'home' AND file LIKE '%rest%';
