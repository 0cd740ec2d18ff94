-- Returns whether the lock was acquired (NULL if not tried), the isolation level, and whether the
-- server is a replica. The savepoint fails outside a transaction.
SAVEPOINT lockwright;
SELECT CASE WHEN fits THEN pg_try_advisory_xact_lock({key}) END, isolation, replica
FROM (SELECT isolation, replica,
             isolation IN ('read committed', 'read uncommitted') AND NOT replica AS fits
      FROM (SELECT current_setting('transaction_isolation') AS isolation,
                   pg_is_in_recovery() AS replica) AS found) AS judged;
RELEASE SAVEPOINT lockwright;
