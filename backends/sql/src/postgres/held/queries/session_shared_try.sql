-- A reader is rejected while a writer holds the barrier, or while another session reads for this
-- claim. Returns the columns of session_try.sql; the second one comes from the record.
SELECT locked,
       CASE WHEN locked THEN false
            ELSE EXISTS (SELECT FROM {reader}
                         WHERE kind = 'session' AND name = :name AND token = :token) END,
       CASE WHEN locked THEN nextval('{hold_fence}') END
FROM (SELECT locked,
             CASE WHEN locked THEN set_config('idle_session_timeout', :ttl_ms::text, false) END,
             CASE WHEN locked THEN set_config('application_name', :mark, false) END
      FROM (SELECT CASE WHEN NOT pg_try_advisory_xact_lock_shared({barrier}) THEN false
                        WHEN NOT pg_try_advisory_lock(:claim) THEN false
                        WHEN pg_try_advisory_lock_shared(:key) THEN true
                        ELSE NOT pg_advisory_unlock(:claim) END AS locked OFFSET 0) AS lock
      OFFSET 0) AS tried;
