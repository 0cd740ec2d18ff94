/* session_try session_wait session_wait_for_readers session_shared_try session_shared_wait */
-- Requests the lock only if the session gets its mark. Returns -1 without the mark, NULL without
-- the lock, and otherwise the fence, or 0 on MySQL, which has no sequences. The NULLIF, which is
-- always NULL, releases the mark. This mode has no readers.
SELECT CAST(IF(GET_LOCK(:mark, 0) <=> 1,
               IF(GET_LOCK(:key, :slice_s) <=> 1,
                  /*M!100300 NEXTVAL({hold_fence}) + */ 0,
                  NULLIF(0 * RELEASE_LOCK(:mark), 0)),
               -1) AS SIGNED);

/* session_missed session_shared_missed */
-- An interrupted wait may have acquired the lock at the last moment.
DO RELEASE_ALL_LOCKS();
SET SESSION wait_timeout = 60;

/* session_restore */
SET SESSION wait_timeout = IF(IS_USED_LOCK(:key) <=> CONNECTION_ID(), :ttl_s, 60);

/* row_try */
-- Returns the name, on MariaDB with a fence, if the session got the row and the mark.
SELECT name /*M!100300 , NEXTVAL({hold_fence}) */ FROM {row}
WHERE name = :name AND GET_LOCK(:mark, 0) = 1 FOR UPDATE SKIP LOCKED;

/* row_wait */
-- If the name may have readers, returns no row at once, and row_missed reports the readers.
-- Otherwise gets the mark, and waits for the row for at most `innodb_lock_wait_timeout`.
SELECT IF(EXISTS (SELECT 1 FROM {hold} WHERE kind = 'row' AND name = :name AND token = '{readers}'),
          -1, GET_LOCK(:mark, 0))
INTO @lockwright_mark;
SELECT name /*M!100300 , NEXTVAL({hold_fence}) */ FROM {row}
WHERE name = :name AND @lockwright_mark = 1 FOR UPDATE;

/* row_wait_for_readers */
-- PostgreSQL's acquire.sql explains the short idle timeout.
SET SESSION wait_timeout = LEAST(:ttl_s, 5), lock_wait_timeout = :limit_s, innodb_lock_wait_timeout = :slice_s;
SET @lockwright_mark = GET_LOCK(:mark, 0);
SET @lockwright_waits = IF(@lockwright_mark = 1, GET_LOCK({waits}, 0), 0);
DO IF(@lockwright_waits = 1, GET_LOCK({barrier}, 1), NULL);
BEGIN;
SELECT name /*M!100300 , NEXTVAL({hold_fence}) */ FROM {row}
WHERE name = :name AND @lockwright_mark = 1 FOR UPDATE;
SET SESSION wait_timeout = :ttl_s;

/* row_shared_try */
-- Only one session can have the mark, so a claim has at most one reader.
SET @lockwright_mark = GET_LOCK(:mark, 0);
SET @lockwright_open = IS_USED_LOCK({waits}) IS NULL;
BEGIN;
SELECT name /*M!100300 , NEXTVAL({hold_fence}) */ FROM {row}
WHERE name = :name AND @lockwright_mark = 1 AND @lockwright_open
/*M! LOCK IN SHARE MODE */ /*!80000 FOR SHARE */ SKIP LOCKED;

/* row_shared_wait */
SET SESSION wait_timeout = :ttl_s, lock_wait_timeout = :limit_s, innodb_lock_wait_timeout = :slice_s;
SET @lockwright_mark = GET_LOCK(:mark, 0);
SET @lockwright_barrier = IF(IS_USED_LOCK({waits}) IS NULL, NULL, GET_LOCK({barrier}, :slice_s));
DO IF(@lockwright_barrier = 1, RELEASE_LOCK({barrier}), NULL);
SET @lockwright_open = IS_USED_LOCK({waits}) IS NULL;
BEGIN;
SELECT name /*M!100300 , NEXTVAL({hold_fence}) */ FROM {row}
WHERE name = :name AND @lockwright_mark = 1 AND @lockwright_open
LOCK IN SHARE MODE;

/* row_missed row_shared_missed */
-- Returns whether the row exists, whether another session has the mark, and whether row_wait found
-- readers.
SELECT EXISTS (SELECT 1 FROM {row} WHERE name = :name),
       COALESCE(IS_USED_LOCK(:mark) <> CONNECTION_ID(), FALSE), @lockwright_mark <=> -1;

/* row_make */
-- Inserts only a missing row, because another insert would wait for the row's lock. The named lock
-- excludes other clients' inserts after the check.
SET @lockwright_made = GET_LOCK({mark_of_row}, 1);
INSERT IGNORE INTO {row} (name)
SELECT :name FROM {meta} WHERE NOT EXISTS (SELECT 1 FROM {row} WHERE name = :name);
COMMIT;
DO RELEASE_LOCK({mark_of_row});
