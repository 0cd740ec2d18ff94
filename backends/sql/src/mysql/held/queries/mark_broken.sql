-- The next holder overwrites an exclusive hold's row, so the mark is also stored in {reader}, as a
-- tombstone with session 0.
UPDATE {held} SET broken = COALESCE(broken, :note), updated = {now}
WHERE kind = '{kind}' AND name = :name AND token = :token;
INSERT IGNORE INTO {reader}
    (kind, name, token, identity, fence, ttl_ms, session, updated, broken, released)
SELECT kind, name, token, identity, fence, ttl_ms, 0, updated, broken, released FROM {hold}
WHERE kind = '{kind}' AND name = :name AND token = :token;
SELECT 1 FROM {held} WHERE kind = '{kind}' AND name = :name AND token = :token;
