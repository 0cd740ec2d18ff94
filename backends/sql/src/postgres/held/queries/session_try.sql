-- Returns whether the lock was acquired, whether another session may hold it for the same claim, and
-- the fence.
-- The first locks end with the transaction, because a session's locks would outlive a failed
-- statement. They and the TTL precede the fence, which may have to wait. If `:ttl_ms` is 0, the
-- session is joint and keeps its TTL.
SELECT granted, NOT claimed, CASE WHEN granted THEN nextval('{hold_fence}') END,
       CASE WHEN granted THEN pg_advisory_lock(:claim)::text END,
       CASE WHEN granted THEN pg_advisory_lock(:key)::text END
FROM (SELECT claimed, locked AND claimed AS granted,
             CASE WHEN locked AND claimed AND :ttl_ms > 0
                  THEN set_config('idle_session_timeout', :ttl_ms::text, false) END
      FROM (SELECT pg_try_advisory_xact_lock(:key) AS locked,
                   pg_try_advisory_xact_lock(:claim) AS claimed OFFSET 0) AS locks
      OFFSET 0) AS tried;
