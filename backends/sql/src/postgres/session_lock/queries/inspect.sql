/* session_inspect */
WITH locks AS MATERIALIZED (
    SELECT pid, granted, objsubid, mode = 'ShareLock' AS shared, {lock_key} AS key
    FROM pg_locks AS locks WHERE {is_advisory}
), held AS MATERIALIZED (
    SELECT held.* FROM ({records}) AS held
    WHERE held.name = :name
      AND CASE WHEN (held.session, {claim_of_held}) IN (SELECT pid, key FROM locks WHERE granted)
               THEN true END
)
SELECT :name, holding.pid::bigint, held.token, held.token, held.identity, last.fence, {left},
       held.broken,
       (SELECT count(DISTINCT pid) FROM locks
        WHERE NOT granted AND key = CASE objsubid WHEN 1 THEN {key} ELSE {barrier_as_one} END),
       holding.shared, {since}
FROM (SELECT) AS once
LEFT JOIN LATERAL (
    SELECT locks.pid, locks.shared, activity.state, activity.state_change
    FROM locks LEFT JOIN LATERAL pg_stat_get_activity(locks.pid) AS activity ON true
    WHERE locks.granted AND locks.objsubid = 1 AND locks.key = {key}
) AS holding ON true
LEFT JOIN {hold} AS last ON last.kind = 'session' AND last.name = :name
LEFT JOIN held ON held.session = holding.pid AND held.shared = holding.shared;

/* session_list */
-- Returns at most :limit rows, for held names after :from in byte order. :inclusive includes :from.
-- The columns are those of session_inspect, with 0 for the waiters.
WITH locks AS MATERIALIZED (
    SELECT pid, mode = 'ShareLock' AS shared, {lock_key} AS key
    FROM pg_locks AS locks WHERE {is_advisory} AND objsubid = 1 AND granted
), sessions AS MATERIALIZED (
    SELECT locks.pid, activity.state, activity.state_change
    FROM (SELECT DISTINCT pid FROM locks) AS locks
    LEFT JOIN LATERAL pg_stat_get_activity(locks.pid) AS activity ON true
), names AS MATERIALIZED (
    -- CASE prevents a nested loop, which the planner would choose, expecting few locks.
    SELECT name, fence, key
    FROM (SELECT held.name, held.fence, {key_of_held} AS key FROM {hold} AS held
          WHERE held.kind = 'session' AND (held.name > :from OR :inclusive AND held.name = :from)
          OFFSET 0) AS held
    WHERE CASE WHEN key IN (SELECT key FROM locks) THEN true END ORDER BY name LIMIT :limit
)
SELECT last.name, holding.pid::bigint, held.token, held.token, held.identity, last.fence, {left},
       held.broken, 0::bigint, locks.shared, {since}
FROM names AS last
JOIN locks ON locks.key = last.key
JOIN sessions AS holding ON holding.pid = locks.pid
LEFT JOIN ({records}) AS held
     ON held.name = last.name AND held.session = holding.pid AND held.shared = locks.shared
    AND CASE WHEN (holding.pid, {claim_of_held}) IN (SELECT pid, key FROM locks) THEN true END
ORDER BY last.name, holding.pid LIMIT :limit;

/* row_inspect */
-- `pg_locks` has no row locks, but a locked row has its holder's transaction in `xmax`. With
-- several readers, `xmax` is no transaction, so only records show them.
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
       -- Waiters have or await the row's tuple lock, or await the barrier.
       (SELECT count(DISTINCT locks.pid) FROM pg_locks AS locks
        LEFT JOIN {row} AS rows ON rows.name = :name
        WHERE locks.relation = '{row}'::regclass AND {in_this_database}
          AND CASE locktype WHEN 'tuple' THEN format('(%s,%s)', page, tuple)::tid END = rows.ctid
          OR {is_advisory} AND objsubid = 2 AND NOT granted AND {lock_key} = {barrier_as_one}),
       coalesce(held.shared, false), {since}
FROM (SELECT) AS once
LEFT JOIN {hold} AS last ON last.kind = 'row' AND last.name = :name
LEFT JOIN (
    sessions JOIN LATERAL pg_stat_get_activity(sessions.pid::int) AS holding
             ON holding.application_name = '{own}'
    LEFT JOIN held ON held.session = holding.pid
) ON true;

/* row_list */
WITH claims AS MATERIALIZED (
    SELECT pid, {lock_key} AS key FROM pg_locks AS locks WHERE {is_advisory} AND objsubid = 1 AND granted
)
SELECT held.name, holding.pid::bigint, held.token, held.token, held.identity, held.fence, {left},
       held.broken, 0::bigint, held.shared, {since}
FROM ({records}) AS held
JOIN LATERAL pg_stat_get_activity(held.session::int) AS holding ON true
WHERE (held.name > :from OR :inclusive AND held.name = :from)
  -- CASE prevents a nested loop, as in session_list.
  AND CASE WHEN (held.session, {claim_of_held}) IN (SELECT pid, key FROM claims) THEN true END
ORDER BY held.name, holding.pid LIMIT :limit;
