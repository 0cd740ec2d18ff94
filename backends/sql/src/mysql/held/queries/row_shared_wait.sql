-- The reader waits until the barrier is open, and only then for the row.
SET SESSION wait_timeout = :ttl_s, lock_wait_timeout = :limit_s, innodb_lock_wait_timeout = :slice_s;
SET @lockwright_mark = GET_LOCK({mark}, 0);
SET @lockwright_barrier = IF(IS_USED_LOCK({waits}) IS NULL, NULL, GET_LOCK({barrier}, :slice_s));
DO IF(@lockwright_barrier = 1, RELEASE_LOCK({barrier}), NULL);
SET @lockwright_open = IS_USED_LOCK({waits}) IS NULL;
BEGIN;
SELECT name /*M!100300 , NEXTVAL({hold_fence}) */ FROM {row}
WHERE name = :name AND @lockwright_mark = 1 AND @lockwright_open
LOCK IN SHARE MODE;
SELECT @lockwright_mark <=> 1;
