/* session_unlock */
SELECT RELEASE_LOCK(:key), RELEASE_ALL_LOCKS();

/* session_part */
-- Releases one hold of a joint session.
SELECT RELEASE_LOCK(:key), RELEASE_LOCK(:mark);

/* row_unlock */
COMMIT;
SELECT RELEASE_LOCK({mark}), RELEASE_ALL_LOCKS();

/* row_shared_unlock */
-- A new reader shares the fence of those whose records exist, so the record is deleted together with
-- the lock.
DELETE FROM {reader} WHERE kind = 'row' AND name = :name AND token = :token;
COMMIT;
SELECT RELEASE_LOCK({mark}), RELEASE_ALL_LOCKS();
