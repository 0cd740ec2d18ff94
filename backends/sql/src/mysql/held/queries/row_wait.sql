-- A waiting writer takes two locks: `waits`, which a reader must find free, and then `barrier`, on
-- which new readers wait. Until the writer has the row, its idle timeout is at most five seconds,
-- so a dead writer doesn't block readers for long.
SET SESSION wait_timeout = LEAST(:ttl_s, 5), lock_wait_timeout = :limit_s, innodb_lock_wait_timeout = :slice_s;
SET @lockwright_mark = GET_LOCK({mark}, 0);
SET @lockwright_waits = IF(
    @lockwright_mark = 1 AND EXISTS (
        SELECT 1 FROM {hold} WHERE kind = 'row' AND name = :name AND token = '{readers}'),
    GET_LOCK({waits}, 0), 0);
DO IF(@lockwright_waits = 1, GET_LOCK({barrier}, 1), NULL);
BEGIN;
SELECT name /*M!100300 , NEXTVAL({hold_fence}) */ FROM {row}
WHERE name = :name AND @lockwright_mark = 1 FOR UPDATE;
SET SESSION wait_timeout = :ttl_s;
SELECT @lockwright_mark <=> 1;
