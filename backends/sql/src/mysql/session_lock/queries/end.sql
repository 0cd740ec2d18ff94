/* find */
SELECT found.session, IS_USED_LOCK(CONCAT({joint}, found.session)) <=> found.session
FROM (SELECT IS_USED_LOCK({mark}) AS session) AS found WHERE found.session IS NOT NULL;

/* mark_broken */
-- PostgreSQL's end.sql explains the tombstone.
UPDATE {held} SET updated = IF(broken IS NULL, {now}, updated), broken = COALESCE(broken, :note)
WHERE kind = '{kind}' AND name = :name AND token = :token;
INSERT IGNORE INTO {reader}
    (kind, name, token, identity, fence, ttl_ms, session, updated, broken, released)
SELECT kind, name, token, identity, fence, ttl_ms, 0, updated, broken, released FROM {hold}
WHERE kind = '{kind}' AND name = :name AND token = :token;
SELECT 1 FROM {held} WHERE kind = '{kind}' AND name = :name AND token = :token;

/* mark_rest */
UPDATE {held} SET ttl_ms = :ttl_ms, updated = {now}
WHERE kind = '{kind}' AND name = :name AND token = :token AND broken IS NOT NULL;

/* mark_released */
UPDATE {held} SET released = 1, updated = {now}
WHERE kind = '{kind}' AND name = :name AND token = :token;
SELECT 1 FROM {held} WHERE kind = '{kind}' AND name = :name AND token = :token;

/* why_ended */
SELECT broken IS NOT NULL, released FROM {hold}
WHERE kind = '{kind}' AND name = :name AND token = :token
UNION ALL
SELECT broken IS NOT NULL, released FROM {reader}
WHERE kind = '{kind}' AND name = :name AND token = :token;

/* kill */
-- Without the mark, this kills connection 0, which doesn't exist. KILL doesn't wait for the
-- session's end, so the next statements do, for at most two seconds.
KILL CONNECTION IF(IS_USED_LOCK({mark}) <=> :session, :session, 0);
{wait_for_mark};

/* session_ask */
-- The session's client polls this named lock at least once a second, and then ends a hold.
DO GET_LOCK(CONCAT({joint}, :session, '/ask'), 1);
{wait_for_answer};
DO RELEASE_LOCK(CONCAT({joint}, :session, '/ask'));

/* session_kill_foreign */
KILL CONNECTION IF(IS_USED_LOCK({key}) <=> :session
                   AND IS_USED_LOCK(CONCAT({joint}, :session)) IS NULL, :session, 0);
{wait_for_key};

/* cancel */
KILL QUERY :session;
