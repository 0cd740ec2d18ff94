-- Returns the name if its row was locked, and then whether the mark was acquired.
SET SESSION wait_timeout = :ttl_s, lock_wait_timeout = :limit_s;
SET @lockwright_mark = GET_LOCK({mark}, 0);
BEGIN;
SELECT name FROM {row} WHERE name = :name AND @lockwright_mark = 1 FOR UPDATE SKIP LOCKED;
SELECT @lockwright_mark <=> 1;
