-- What is known of our own tables. They must be there.
-- Answers: whether the user may do with them what locking takes, about how many names there are
SELECT bool_and(has_table_privilege(name::regclass, privilege)),
       (SELECT reltuples::bigint FROM pg_class WHERE oid = '{lease}'::regclass)
FROM unnest(ARRAY['{lease}', '{beside}', '{tombstone}', '{meta}']) AS name,
     unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS privilege
