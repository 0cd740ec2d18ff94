-- The last two columns are the oldest snapshot's age in transactions and in seconds, or NULL if the
-- user can't see it. The snapshots of VACUUMs keep no dead rows.
SELECT pg_is_in_recovery(), current_setting('transaction_read_only') = 'on',
       current_setting('server_version_num')::bigint, current_setting('fsync') = 'on',
       current_setting('full_page_writes') = 'on', current_setting('synchronous_commit'),
       (SELECT count(*) FROM pg_stat_replication), current_setting('synchronous_standby_names'),
       coalesce(
           (SELECT 'the extension ' || extname FROM pg_extension
            WHERE extname IN ('bdr', 'pgactive', 'pglogical', 'spock') LIMIT 1),
           (SELECT 'the subscription ' || subname FROM pg_subscription
            JOIN pg_database ON pg_database.oid = subdbid
            WHERE datname = current_database() LIMIT 1)),
       {now},
       (SELECT max(age)::bigint FROM (
            SELECT max(age(backend_xmin)) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()
              AND pid NOT IN (SELECT pid FROM pg_stat_progress_vacuum)
            UNION ALL SELECT max(age(transaction)) FROM pg_prepared_xacts
            UNION ALL SELECT max(age(xmin)) FROM pg_replication_slots) AS oldest (age)),
       (SELECT max(extract(epoch FROM clock_timestamp() - xact_start))::bigint
        FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
          AND backend_xmin IS NOT NULL AND pid NOT IN (SELECT pid FROM pg_stat_progress_vacuum))
