/* session_try */
-- Returns `same` if another session has the claim's lock, `busy` if the name's lock isn't free, and
-- otherwise the fence. `:new_ttl_ms` is the idle timeout to set, or 0 if already the TTL. An error
-- of `nextval` would undo the new timeout but not session locks, so the locks are first taken for
-- the transaction only. `set_config` never returns '', so its WHEN never applies.
SELECT CASE WHEN :new_ttl_ms = 0
                THEN CASE WHEN NOT pg_try_advisory_lock(:claim) THEN 'same'
                          WHEN pg_try_advisory_lock(:key) THEN nextval('{hold_fence}')::text
                          WHEN pg_advisory_unlock(:claim) THEN 'busy'
                     END
            WHEN NOT pg_try_advisory_xact_lock(:claim) THEN 'same'
            WHEN NOT pg_try_advisory_xact_lock(:key) THEN 'busy'
            WHEN set_config('idle_session_timeout', :new_ttl_ms::text, false) = '' THEN NULL
            ELSE concat(nextval('{hold_fence}'), pg_advisory_lock(:claim), pg_advisory_lock(:key))
       END;

/* session_wait */
-- The first wait for the lock. The session's idle timeout is already the TTL, and its
-- `lock_timeout` is 5000 ms. Returns the column of session_try, and the server's wait in µs. If
-- only readers have the lock, returns `readers` at once. After this or a timeout, the session keeps
-- the claim's lock, and session_wait_for_readers follows.
SELECT CASE WHEN NOT pg_try_advisory_lock(:claim) THEN 'same'
            WHEN :slice_ms <> 5000 AND set_config('lock_timeout', :slice_ms::text, true) = '' THEN NULL
            WHEN pg_try_advisory_lock(:key) THEN nextval('{hold_fence}')::text
            WHEN pg_try_advisory_lock_shared(:key)
                THEN CASE WHEN pg_advisory_unlock_shared(:key) THEN 'readers' END
            ELSE concat(pg_advisory_lock(:key), nextval('{hold_fence}'))
       END, {waited_us};

/* session_wait_for_readers */
-- Closes the barrier and waits. Until the session has the name's lock, its idle timeout is at most
-- five seconds, so a dead writer's barrier soon opens. The last row has session_wait's columns.
BEGIN;
SELECT set_config('idle_session_timeout', CASE WHEN {has_readers} OR EXISTS (
    SELECT FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND pid = pg_backend_pid()
) THEN least(:ttl_ms, 5000) ELSE :ttl_ms END::text, false);
COMMIT;
SELECT set_config('lock_timeout', :slice_ms::text, true);
SELECT {close_barrier};
SELECT set_config('lock_timeout', {rest}, true);
SELECT pg_advisory_xact_lock(:key)::text;
SELECT CASE WHEN NOT pg_try_advisory_lock(:claim) THEN 'same'
            WHEN set_config('idle_session_timeout', :ttl_ms::text, false) = '' THEN NULL
            ELSE concat(nextval('{hold_fence}'), pg_advisory_lock(:key))
       END, {waited_us};

/* session_missed */
-- Releases the lock, possibly granted just before the timeout. The session keeps the barrier and
-- the claim's lock. The first column is that of row_missed.
SELECT false, count(pg_advisory_unlock(:key)) FROM pg_locks AS locks
WHERE locks.pid = pg_backend_pid() AND {is_advisory} AND objsubid = 1 AND granted AND {lock_key} = :key;

/* session_shared_try */
-- Like session_try, but also `busy` while a writer has closed the barrier.
SELECT CASE WHEN NOT pg_try_advisory_xact_lock(:claim) THEN 'same'
            WHEN NOT pg_try_advisory_xact_lock_shared({barrier}) THEN 'busy'
            WHEN NOT pg_try_advisory_xact_lock_shared(:key) THEN 'busy'
            WHEN :new_ttl_ms > 0 AND set_config('idle_session_timeout', :new_ttl_ms::text, false) = '' THEN NULL
            ELSE concat(nextval('{hold_fence}'), pg_advisory_lock(:claim),
                        pg_advisory_lock_shared(:key))
       END;

/* session_shared_wait */
-- Waits for the claim's lock, so only one session reads for a claim, then for the barrier, and then
-- for the name's lock. Sets the idle timeout first: it ends a lock granted just before the wait
-- times out. The last row is the fence.
BEGIN;
SELECT set_config('idle_session_timeout', :ttl_ms::text, false),
       set_config('idle_in_transaction_session_timeout', :ttl_ms::text, false);
COMMIT;
BEGIN;
SELECT set_config('lock_timeout', :slice_ms::text, true);
SELECT pg_advisory_lock(:claim)::text;
SELECT set_config('lock_timeout', {rest}, true);
SELECT pg_advisory_xact_lock_shared({barrier})::text;
COMMIT;
BEGIN;
SELECT set_config('lock_timeout', {rest}, true);
SELECT pg_advisory_lock_shared(:key)::text;
SELECT nextval('{hold_fence}')::text;
COMMIT;

/* row_try */
-- Runs as a prepared statement in a new transaction, whose end restores the idle timeout. Returns
-- the fence if the lock was acquired.
WITH locked AS MATERIALIZED (
    SELECT name FROM {row} WHERE name = :name AND pg_try_advisory_xact_lock(:claim)
    FOR UPDATE SKIP LOCKED
)
SELECT nextval('{hold_fence}'),
       set_config('idle_in_transaction_session_timeout', :ttl_ms::text, true)
FROM locked;

/* row_wait */
-- Runs like row_try. Returns the fence, and the server's wait in µs. Returns no row if another
-- session has the claim's lock, the name's row is missing, or the name may have readers.
WITH asked AS MATERIALIZED (
    SELECT {has_readers} AS has_readers, pg_try_advisory_xact_lock(:claim) AS claimed,
           set_config('idle_in_transaction_session_timeout', :ttl_ms::text, true),
           set_config('lock_timeout', :slice_ms::text, true)
), locked AS MATERIALIZED (
    SELECT rows.name FROM asked JOIN {row} AS rows ON rows.name = :name
    WHERE asked.claimed AND NOT asked.has_readers FOR UPDATE OF rows
)
SELECT nextval('{hold_fence}'), {waited_us} FROM locked;

/* row_wait_for_readers */
-- Like session_wait_for_readers. After success, the fifth row has row_wait's columns.
BEGIN;
SELECT set_config('idle_session_timeout', least(:ttl_ms, 5000)::text, false),
       set_config('idle_in_transaction_session_timeout', least(:ttl_ms, 5000)::text, false);
COMMIT;
BEGIN;
SELECT set_config('lock_timeout', :slice_ms::text, true), pg_advisory_xact_lock(:claim)::text,
       set_config('lock_timeout', {rest}, true);
SELECT {close_barrier};
SELECT set_config('lock_timeout', {rest}, true);
WITH locked AS MATERIALIZED (SELECT name FROM {row} WHERE name = :name FOR UPDATE)
SELECT nextval('{hold_fence}'), {waited_us} FROM locked;
SET idle_session_timeout = :ttl_ms;
SET idle_in_transaction_session_timeout = :ttl_ms;

/* row_shared_try */
-- Like session_shared_try, but returns no row without the lock. Takes the claim's lock for the
-- session, so row_shared_unlock can release it before the commit.
WITH locked AS MATERIALIZED (
    SELECT name FROM {row} WHERE name = :name
      AND (SELECT CASE WHEN pg_try_advisory_lock_shared({barrier})
                       THEN pg_advisory_unlock_shared({barrier}) ELSE false END)
      AND pg_try_advisory_lock(:claim)
    FOR SHARE SKIP LOCKED
), timed AS MATERIALIZED (
    SELECT set_config('idle_session_timeout', :ttl_ms::text, false),
           set_config('idle_in_transaction_session_timeout', :ttl_ms::text, false)
    FROM locked
)
SELECT nextval('{hold_fence}') FROM timed;

/* row_shared_wait */
-- After success, the fifth row is the fence.
BEGIN;
SELECT set_config('idle_session_timeout', :ttl_ms::text, false),
       set_config('idle_in_transaction_session_timeout', :ttl_ms::text, false);
COMMIT;
BEGIN;
SELECT set_config('lock_timeout', :slice_ms::text, true), pg_advisory_lock(:claim)::text;
SELECT set_config('lock_timeout', {rest}, true), pg_advisory_xact_lock_shared({barrier})::text;
COMMIT;
BEGIN;
SELECT set_config('lock_timeout', {rest}, true);
WITH locked AS MATERIALIZED (SELECT name FROM {row} WHERE name = :name FOR SHARE)
SELECT nextval('{hold_fence}') FROM locked;

/* row_missed session_shared_missed row_shared_missed */
-- Returns whether another session has the claim's lock, and whether the row exists (mode `row`).
ROLLBACK;
SELECT NOT pg_try_advisory_xact_lock(:claim), EXISTS (SELECT FROM {row} WHERE name = :name);

/* row_make */
INSERT INTO {row} (name) VALUES (:name) ON CONFLICT DO NOTHING;
