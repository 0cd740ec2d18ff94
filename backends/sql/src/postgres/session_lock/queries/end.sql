/* find */
-- Returns the sessions that have or await the claim's lock, and whether each is joint.
SELECT locks.pid::bigint, activity.application_name = '{joint}'
FROM pg_locks AS locks CROSS JOIN LATERAL pg_stat_get_activity(locks.pid) AS activity
WHERE {is_claim_lock};

/* mark_broken */
-- Marks the hold's record as broken. Returns a row if there is one. The next holder overwrites an
-- exclusive hold's record, so a tombstone, a row of {reader} with session 0, keeps the mark.
WITH marked AS (
    UPDATE {held} SET broken = coalesce(broken, :note),
        updated = CASE WHEN broken IS NULL THEN clock_timestamp() ELSE updated END
    WHERE kind = '{kind}' AND name = :name AND token = :token
    RETURNING kind, name, token, identity, fence, ttl_ms, updated, broken, released
), tombstone AS (
    INSERT INTO {reader} (kind, name, token, identity, fence, ttl_ms, session, updated, broken, released)
    SELECT kind, name, token, identity, fence, ttl_ms, 0, updated, broken, released FROM marked
    ON CONFLICT (kind, name, token) DO NOTHING
)
SELECT 1::bigint FROM marked;

/* mark_rest */
-- Sets a broken hold's TTL to the hold's remaining time.
UPDATE {held} SET ttl_ms = :ttl_ms, updated = clock_timestamp()
WHERE kind = '{kind}' AND name = :name AND token = :token AND broken IS NOT NULL;

/* mark_released */
UPDATE {held} SET released = true, updated = clock_timestamp()
WHERE kind = '{kind}' AND name = :name AND token = :token RETURNING 1::bigint;

/* why_ended */
-- Returns two marks of the hold or its tombstone: broken, and released through another connection.
SELECT broken IS NOT NULL, released FROM {hold}
WHERE kind = '{kind}' AND name = :name AND token = :token
UNION ALL
SELECT broken IS NOT NULL, released FROM {reader}
WHERE kind = '{kind}' AND name = :name AND token = :token;

/* kill */
-- Ends the :session if it still has or awaits the claim's lock. Waits at most 2 s for the end.
SELECT pg_terminate_backend(locks.pid, 2000) FROM pg_locks AS locks
WHERE locks.pid = :session AND {is_claim_lock};

/* session_ask */
-- Makes the client of the joint :session read its holds' records.
SELECT pg_notify('lockwright_' || :session::text, '')::text;

/* session_kill_foreign */
-- Ends the :session of a program without Lockwright if it still has the name's lock.
SELECT pg_terminate_backend(locks.pid, 2000)
FROM pg_locks AS locks CROSS JOIN LATERAL pg_stat_get_activity(locks.pid) AS activity
WHERE locks.pid = :session AND {is_advisory} AND objsubid = 1 AND granted AND {lock_key} = {key}
  AND activity.application_name NOT IN ('{own}', '{joint}');

/* cancel */
SELECT pg_cancel_backend(:session::int);
