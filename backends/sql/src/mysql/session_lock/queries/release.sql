/* session_unlock session_shared_unlock */
SELECT RELEASE_LOCK(:key), RELEASE_ALL_LOCKS();

/* session_part */
SELECT RELEASE_LOCK(:key), RELEASE_LOCK(:mark);

/* row_unlock */
-- Returns the number of released locks: 0 without the mark.
COMMIT;
SELECT RELEASE_ALL_LOCKS();

/* row_shared_unlock */
-- One commit deletes the record and unlocks the row. If the record outlived the lock, a reader
-- after the next writer could get the record's fence.
DELETE FROM {reader} WHERE kind = 'row' AND name = :name AND token = :token;
COMMIT;
SELECT RELEASE_ALL_LOCKS();
