-- Like `break_run_out`, but runs after `shared_lock`, so no repeated acquire renews the hold
-- concurrently.
UPDATE {shared_holder} SET broken = coalesce(broken, :broken)
WHERE name = :name AND token = :token AND expires > {now} AND mode <> 'exclusive'
RETURNING expires - {now}
