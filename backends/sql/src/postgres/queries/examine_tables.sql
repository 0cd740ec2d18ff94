SELECT bool_and(has_table_privilege(name::regclass, privilege)),
       (SELECT reltuples::bigint FROM pg_class WHERE oid = '{lease}'::regclass)
FROM unnest(ARRAY['{lease}', '{shared_holder}', '{tombstone}', '{meta}']) AS name,
     unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS privilege
-- Fails if one of these tables is missing.
WHERE '{reader}'::regclass IS NOT NULL AND '{hold_raised}'::regclass IS NOT NULL
