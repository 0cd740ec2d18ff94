-- Returns whether the lock was acquired, whether another session holds it for the same claim, and the
-- fence.
-- The first lock ends with the transaction, because a session's lock would outlive a failed
-- statement. The mark and the TTL are set before the fence, which may have to wait. If `:ttl_ms` is
-- 0, the session is joint and keeps them.
SELECT locked,
       CASE WHEN NOT locked THEN NOT pg_try_advisory_xact_lock(:claim) END,
       CASE WHEN locked THEN nextval('{hold_fence}') END,
       CASE WHEN locked THEN pg_try_advisory_lock(:claim) END,
       CASE WHEN locked THEN pg_advisory_lock(:key)::text END
FROM (SELECT locked,
             CASE WHEN locked AND :ttl_ms > 0
                  THEN set_config('idle_session_timeout', :ttl_ms::text, false) END,
             CASE WHEN locked AND :ttl_ms > 0
                  THEN set_config('application_name', :mark, false) END
      FROM (SELECT pg_try_advisory_xact_lock(:key) AS locked OFFSET 0) AS lock
      OFFSET 0) AS tried;
