-- Records a hold from another session. Returns no row if the name has a record with a higher fence.
INSERT INTO {hold} AS held (kind, name, token, identity, fence, ttl_ms, session, updated)
VALUES ('{kind}', :name, :token, :identity, :fence, :ttl_ms, :session, clock_timestamp())
ON CONFLICT (kind, name) DO UPDATE SET {overwritten}, fence = excluded.fence WHERE held.fence <= excluded.fence
RETURNING fence;
