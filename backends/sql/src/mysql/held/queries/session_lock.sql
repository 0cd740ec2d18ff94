-- Requests the lock only if the mark was acquired. Returns whether the mark and the lock were
-- acquired.
SET SESSION wait_timeout = :ttl_s, lock_wait_timeout = :limit_s;
SET @lockwright_mark = GET_LOCK({mark}, 0), @lockwright_got = NULL;
SET @lockwright_got = IF(@lockwright_mark = 1, GET_LOCK({key}, :slice_s), NULL);
SET @lockwright_left =
    IF(@lockwright_mark = 1 AND NOT @lockwright_got <=> 1, RELEASE_ALL_LOCKS(), NULL);
SET SESSION wait_timeout = IF(@lockwright_got <=> 1, :ttl_s, 60);
SELECT @lockwright_mark <=> 1, @lockwright_got <=> 1;
