-- The same, and blocks for at most :slice_s seconds, of which there must be one or more.
SET SESSION wait_timeout = :ttl_s, innodb_lock_wait_timeout = :slice_s;
SET @lockwright_mark = GET_LOCK({mark}, 0);
BEGIN;
SELECT name FROM {row} WHERE name = :name AND @lockwright_mark = 1 FOR UPDATE;
SELECT @lockwright_mark <=> 1;
