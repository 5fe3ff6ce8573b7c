-- What an ad cost when it was shown: the last price of its campaign, if it is not older than an hour.
CREATE APPLICATION ad_prices;

CREATE INPUT TABLE shown (t TIMESTAMP, campaign STRING, ad BIGINT) FROM SCRIBE("ads_shown") TIME t;
CREATE INPUT TABLE prices (t TIMESTAMP, campaign STRING, price DOUBLE) FROM SCRIBE("ad_prices") TIME t ORDERED;

CREATE TABLE priced AS
SELECT a.t AS t, a.campaign AS campaign, a.ad AS ad, p.price AS price, COALESCE(p.price, 0.0) AS charged
FROM shown AS a ASOF LEFT JOIN prices AS p MATCH_CONDITION (a.t >= p.t)
ON a.campaign = p.campaign WITHIN INTERVAL '1 hour'
STORAGE SCRIBE(category = "priced_ads");
