-- Row locks aren't visible, but a locked row has its holder's transaction in `xmax`. Of several
-- readers, only the recorded ones are found.
WITH claims AS MATERIALIZED (
    SELECT pid, {lock_key} AS key FROM pg_locks AS locks WHERE {is_advisory} AND objsubid = 1 AND granted
), held AS MATERIALIZED (
    SELECT held.* FROM ({records}) AS held
    WHERE held.name = :name
      AND CASE WHEN (held.session, {claim_of_held}) IN (SELECT pid, key FROM claims) THEN true END
), sessions AS MATERIALIZED (
    SELECT session AS pid FROM held
    UNION
    SELECT locks.pid FROM {row} AS rows JOIN pg_locks AS locks
           ON locks.locktype = 'transactionid' AND locks.transactionid = rows.xmax
          AND locks.mode = 'ExclusiveLock' AND locks.granted
    WHERE rows.name = :name
)
SELECT :name, holding.pid::bigint, held.token, held.token, held.identity, last.fence, {left},
       held.broken,
       -- Waiters have or await the row's tuple lock, or wait at the barrier.
       (SELECT count(DISTINCT locks.pid) FROM pg_locks AS locks
        LEFT JOIN {row} AS rows ON rows.name = :name
        WHERE locks.relation = '{row}'::regclass AND {in_this_database}
          AND CASE locktype WHEN 'tuple' THEN format('(%s,%s)', page, tuple)::tid END = rows.ctid
          OR {is_advisory} AND objsubid = 2 AND NOT granted AND {lock_key} = {barrier_as_one}),
       coalesce(held.shared, false)
FROM (SELECT) AS once
LEFT JOIN {hold} AS last ON last.kind = 'row' AND last.name = :name
LEFT JOIN (
    sessions JOIN LATERAL pg_stat_get_activity(sessions.pid::int) AS holding
             ON holding.application_name = '{own}'
    LEFT JOIN held ON held.session = holding.pid
) ON true;
