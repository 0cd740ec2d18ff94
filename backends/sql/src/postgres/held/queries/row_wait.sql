-- Runs prepared in a new transaction. Its end restores the settings. Returns what
-- row_try.sql returns, and how long the server waited in µs. Returns no row if another session has
-- the claim's lock, if the row to lock is missing, or if the name may have readers. In the last case,
-- row_wait_for_readers.sql waits.
WITH asked AS MATERIALIZED (
    SELECT {has_readers} AS has_readers, pg_try_advisory_xact_lock(:claim) AS claimed,
           set_config('idle_in_transaction_session_timeout', :ttl_ms::text, true),
           set_config('lock_timeout', :slice_ms::text, true)
), locked AS MATERIALIZED (
    SELECT rows.name FROM asked JOIN {row} AS rows ON rows.name = :name
    WHERE asked.claimed AND NOT asked.has_readers
    FOR UPDATE OF rows
)
SELECT nextval('{hold_fence}'), {waited_us} FROM locked;
