/* note */
-- A paused client must not overwrite the next holder's row, so the first assignment, under the
-- row's lock, checks the session's mark again. If `:fence` is 0, the row determines the fence.
INSERT INTO {hold} (kind, name, token, identity, fence, ttl_ms, session, updated, broken, released)
SELECT '{kind}', :name, :token, :identity, IF(:fence > 0, :fence, GREATEST(meta.floor + 1, {now})),
       :ttl_ms, :session, {now}, NULL, 0
FROM {meta} AS meta WHERE IS_USED_LOCK({mark}) <=> :session
ON DUPLICATE KEY UPDATE
    updated = IF(IS_USED_LOCK({mark}) <=> :session, VALUES(updated), {hold}.updated),
    broken = IF({hold}.updated = VALUES(updated) AND {hold}.token <> VALUES(token), NULL, {hold}.broken),
    fence = IF({hold}.updated = VALUES(updated),
               IF(:fence > 0, GREATEST(IF({hold}.token = VALUES(token), {hold}.fence, 0), :fence),
                  GREATEST({hold}.fence + 1, VALUES(fence))), {hold}.fence),
    {overwritten};

SELECT fence FROM {hold}
WHERE kind = '{kind}' AND name = :name AND token = :token AND session = :session;

/* shared_note */
-- PostgreSQL's record.sql explains the readers' fence.
INSERT INTO {hold} (kind, name, token, identity, fence, ttl_ms, session, updated, broken, released)
SELECT '{kind}', :name, '{readers}', '', IF(:fence > 0, :fence, GREATEST(meta.floor + 1, {now})),
       :ttl_ms, :session, {now}, NULL, 0
FROM {meta} AS meta WHERE IS_USED_LOCK({mark}) <=> :session
ON DUPLICATE KEY UPDATE
    updated = IF(IS_USED_LOCK({mark}) <=> :session, VALUES(updated), {hold}.updated),
    fence = IF({hold}.updated = VALUES(updated) AND NOT ({still_read}),
               GREATEST({hold}.fence + IF(:fence > 0, 0, 1), VALUES(fence)), {hold}.fence),
    {overwritten},
    broken = IF({hold}.updated = VALUES(updated), NULL, {hold}.broken);

INSERT INTO {reader} (kind, name, token, identity, fence, ttl_ms, session, updated, broken, released)
SELECT '{kind}', :name, :token, :identity, last.fence, :ttl_ms, :session, {now}, NULL, 0
FROM {hold} AS last WHERE last.kind = '{kind}' AND last.name = :name AND last.token = '{readers}'
  AND IS_USED_LOCK({mark}) <=> :session
ON DUPLICATE KEY UPDATE
    identity = VALUES(identity), fence = VALUES(fence), ttl_ms = VALUES(ttl_ms),
    session = VALUES(session), updated = VALUES(updated), broken = NULL, released = 0;

SELECT fence FROM {reader}
WHERE kind = '{kind}' AND name = :name AND token = :token AND session = :session;

/* raise */
-- Returns the server's time if the sequence of fences is lower, else 0. The client raises the
-- sequence to it, because a crash may have lost the last fences.
SELECT CAST(0 /*M!100300 + (next_not_cached_value < {now}) * {now} */ AS SIGNED)
/*M!100300 FROM {hold_fence} */;
