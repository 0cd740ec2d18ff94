SELECT MAX(part.token) INTO @lockwright_last
FROM (
    SELECT token FROM {shared_holder} WHERE expires < {now} - :idle ORDER BY token LIMIT :limit
) AS part;

BEGIN;
SELECT JSON_ARRAYAGG(JSON_ARRAY(name, token, 0, 0)) INTO @lockwright_locked
FROM {shared_holder} WHERE token <= @lockwright_last AND expires < {now} - :idle
FOR UPDATE SKIP LOCKED;
DELETE holder FROM {locked} STRAIGHT_JOIN {shared_holder} AS holder FORCE INDEX (PRIMARY)
    ON holder.name = {locked_name} AND holder.token = {locked_token};
SELECT ROW_COUNT();
COMMIT;
