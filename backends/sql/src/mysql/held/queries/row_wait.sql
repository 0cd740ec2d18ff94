-- The same, and blocks for at most :slice_s seconds, of which there must be one or more. Before it
-- waits for readers it says so, which stops new ones, and closes the gate, at which those wait who
-- would be next. Who passes it does so one by one, and soon. Until it has the lock the session may be idle
-- for as long as a slice at most: a writer that isn't heard of any more soon stops nobody.
SET SESSION wait_timeout = LEAST(:ttl_s, 5), lock_wait_timeout = :limit_s, innodb_lock_wait_timeout = :slice_s;
SET @lockwright_mark = GET_LOCK({mark}, 0);
SET @lockwright_waits = IF(
    @lockwright_mark = 1 AND EXISTS (
        SELECT 1 FROM {hold} WHERE kind = 'row' AND name = :name AND token = '{readers}'),
    GET_LOCK({waits}, 0), 0);
DO IF(@lockwright_waits = 1, GET_LOCK({gate}, 1), NULL);
BEGIN;
SELECT name FROM {row} WHERE name = :name AND @lockwright_mark = 1 FOR UPDATE;
SET SESSION wait_timeout = :ttl_s;
SELECT @lockwright_mark <=> 1;
