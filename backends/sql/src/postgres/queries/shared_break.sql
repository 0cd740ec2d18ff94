-- Like `break_run_out`. The lock of `shared_lock` excludes a concurrent renewal by an acquire.
UPDATE {shared_holder} SET broken = coalesce(broken, :broken)
WHERE name = :name AND token = :token AND expires > {now} AND mode <> 'exclusive'
RETURNING expires - {now}
