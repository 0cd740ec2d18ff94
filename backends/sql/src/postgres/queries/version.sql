SELECT version::bigint, pg_is_in_recovery(), current_setting('server_version_num')::bigint,
       pg_backend_pid()::bigint, {now}
FROM {meta}
-- Fails if one of these tables is missing, so that the client creates it.
WHERE NOT EXISTS (SELECT FROM {shared_holder} WHERE false)
  AND '{reader}'::regclass IS NOT NULL AND '{hold_raised}'::regclass IS NOT NULL
