-- Requests the lock only if the mark was acquired. Returns -1 if the mark was refused, NULL if the
-- lock was, and otherwise the fence, or 0 on MySQL, which has no sequences. RELEASE_LOCK releases
-- the mark, and its factor makes NULL.
SET SESSION wait_timeout = :ttl_s, lock_wait_timeout = :limit_s;
SET @lockwright_got = IF(GET_LOCK(:mark, 0) <=> 1,
                         IF(GET_LOCK(:key, :slice_s) <=> 1,
                            /*M!100300 NEXTVAL({hold_fence}) + */ 0,
                            NULLIF(0 * RELEASE_LOCK(:mark), 0)),
                         -1);
SET SESSION wait_timeout = IF(@lockwright_got >= 0, :ttl_s, :idle_s);
SELECT CAST(@lockwright_got AS SIGNED);
