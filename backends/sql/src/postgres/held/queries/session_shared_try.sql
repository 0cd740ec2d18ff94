-- A reader is rejected while a writer holds the barrier, or while another session reads for this
-- claim. Returns the columns of session_try.sql.
SELECT granted, NOT claimed, CASE WHEN granted THEN nextval('{hold_fence}') END,
       CASE WHEN granted THEN pg_advisory_lock(:claim)::text END,
       CASE WHEN granted THEN pg_advisory_lock_shared(:key)::text END
FROM (SELECT claimed, granted,
             CASE WHEN granted THEN set_config('idle_session_timeout', :ttl_ms::text, false) END
      FROM (SELECT claimed,
                   CASE WHEN NOT claimed THEN false
                        WHEN NOT pg_try_advisory_xact_lock_shared({barrier}) THEN false
                        ELSE pg_try_advisory_xact_lock_shared(:key) END AS granted
            FROM (SELECT pg_try_advisory_xact_lock(:claim) AS claimed OFFSET 0) AS claim
            OFFSET 0) AS locks
      OFFSET 0) AS tried;
