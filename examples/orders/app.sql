-- Orders with their deliveries and returns: three streams, each bounded by the time of an earlier one.
CREATE APPLICATION order_tracking;

CREATE INPUT TABLE orders (t TIMESTAMP, order_id BIGINT, item STRING) FROM SCRIBE("orders") TIME t;
CREATE INPUT TABLE deliveries (t TIMESTAMP, order_id BIGINT, carrier STRING) FROM SCRIBE("deliveries") TIME t;
CREATE INPUT TABLE returns (t TIMESTAMP, order_id BIGINT, reason STRING) FROM SCRIBE("returns") TIME t;

CREATE TABLE tracked AS
SELECT o.order_id AS order_id, o.item AS item, o.t AS ordered, d.t AS delivered, d.carrier AS carrier,
       r.t AS returned, r.reason AS reason
FROM orders AS o
LEFT JOIN deliveries AS d ON d.order_id = o.order_id AND
     d.t BETWEEN o.t AND o.t + INTERVAL '3 days'
LEFT JOIN returns AS r ON r.order_id = o.order_id AND
     r.t BETWEEN d.t - INTERVAL '1 hour' AND d.t + INTERVAL '2 days'
STORAGE SCRIBE(category = "tracked_orders");
