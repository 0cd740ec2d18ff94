-- Records that a writer waits for readers. Needs no lock, because a change of the name's fence
-- makes the record void.
INSERT INTO {shared_holder} AS holder
    (name, token, identity, mode, permits, size, fence, ttl, expires, updated, broken)
SELECT :name, :token, :identity, 'exclusive', 0, 0, lease.fence, :ttl, {now} + :patience, {now}, NULL
FROM {lease} AS lease WHERE lease.name = :name AND lease.mode = 'shared' AND lease.token IS NOT NULL
  AND lease.expires > {now}
ON CONFLICT (name, token) DO UPDATE SET
    fence = excluded.fence, expires = excluded.expires, updated = excluded.updated
