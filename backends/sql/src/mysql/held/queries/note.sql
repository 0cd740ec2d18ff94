-- A paused client must not overwrite the next holder's row. So the first assignment checks the
-- session's mark again, once the row is locked. If `:fence` is 0, the row determines the
-- fence.
INSERT INTO {hold} (kind, name, token, identity, fence, ttl_ms, session, updated, broken, released)
SELECT '{kind}', :name, :token, :identity, IF(:fence > 0, :fence, GREATEST(meta.floor + 1, {now})),
       :ttl_ms, :session, {now}, NULL, 0
FROM {meta} AS meta
WHERE IS_USED_LOCK({mark}) <=> :session
ON DUPLICATE KEY UPDATE
    updated = IF(IS_USED_LOCK({mark}) <=> :session, VALUES(updated), {hold}.updated),
    broken = IF({hold}.updated = VALUES(updated) AND {hold}.token <> VALUES(token), NULL, {hold}.broken),
    fence = IF({hold}.updated = VALUES(updated),
               IF(:fence > 0, GREATEST(IF({hold}.token = VALUES(token), {hold}.fence, 0), :fence),
                  GREATEST({hold}.fence + 1, VALUES(fence))), {hold}.fence),
    token = IF({hold}.updated = VALUES(updated), VALUES(token), {hold}.token),
    identity = IF({hold}.updated = VALUES(updated), VALUES(identity), {hold}.identity),
    ttl_ms = IF({hold}.updated = VALUES(updated), VALUES(ttl_ms), {hold}.ttl_ms),
    session = IF({hold}.updated = VALUES(updated), VALUES(session), {hold}.session),
    released = IF({hold}.updated = VALUES(updated), 0, {hold}.released);

SELECT fence FROM {hold}
WHERE kind = '{kind}' AND name = :name AND token = :token AND session = :session;
