-- Returns: version, whether the server is a replica, the server's version, the backend's id, now
SELECT version::bigint, pg_is_in_recovery(), current_setting('server_version_num')::bigint,
       pg_backend_pid()::bigint, {now}
FROM {meta}
-- Tables of an earlier layout lack one of these, and are completed.
WHERE NOT EXISTS (SELECT FROM {beside} WHERE false)
  AND NOT EXISTS (SELECT FROM {reader} WHERE false)
