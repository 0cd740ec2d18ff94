INSERT INTO {shared_holder}
    (name, token, identity, mode, permits, size, fence, ttl, expires, updated, broken)
SELECT :name, :token, :identity, 'exclusive', 0, 0, lease.fence, :ttl, {now} + :patience, {now}, NULL
FROM {lease} AS lease WHERE lease.name = :name AND lease.mode = 'shared' AND lease.token IS NOT NULL
  AND lease.expires > {now}
ON DUPLICATE KEY UPDATE
    fence = VALUES(fence), expires = VALUES(expires), updated = VALUES(updated);
