-- The condition on {now} couldn't use the index, because SYSDATE isn't constant.
SET @lockwright_now = {now};

SELECT MAX(part.until_us) INTO @lockwright_last
FROM (
    SELECT until_us FROM {tombstone} WHERE until_us < @lockwright_now ORDER BY until_us LIMIT :limit
) AS part;

BEGIN;
SELECT JSON_ARRAYAGG(token) INTO @lockwright_old
FROM {tombstone} WHERE until_us <= @lockwright_last FOR UPDATE SKIP LOCKED;
DELETE tombstone FROM {old} STRAIGHT_JOIN {tombstone} AS tombstone ON tombstone.token = {old_name};
SELECT ROW_COUNT();
COMMIT;
