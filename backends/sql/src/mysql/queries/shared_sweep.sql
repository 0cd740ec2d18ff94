-- Skips locked rows.
SELECT MAX(part.token) INTO @lockwright_last
FROM (
    SELECT token FROM {beside} WHERE expires < {now} - :idle ORDER BY token LIMIT :limit
) AS part;

BEGIN;
SELECT JSON_ARRAYAGG(JSON_ARRAY(name, token, 0, 0)) INTO @lockwright_locked
FROM {beside} WHERE token <= @lockwright_last AND expires < {now} - :idle
FOR UPDATE SKIP LOCKED;
DELETE beside FROM {locked} STRAIGHT_JOIN {beside} AS beside FORCE INDEX (PRIMARY)
    ON beside.name = CONVERT(locked.name USING utf8mb4) COLLATE utf8mb4_bin
    AND beside.token = CONVERT(locked.token USING utf8mb4) COLLATE utf8mb4_bin;
SELECT ROW_COUNT();
COMMIT;
