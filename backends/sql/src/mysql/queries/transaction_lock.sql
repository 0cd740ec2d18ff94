-- Locks the name's row by a write. INSERT IGNORE would take a shared lock first, which allows a
-- deadlock. A SELECT would lock a gap, and take a snapshot before the wait.
--
-- After a failed wait, the savepoint shows whether the transaction still exists. On MariaDB, SET
-- STATEMENT limits the wait of the INSERT. MySQL needs the session's limit, and rejects 0 in a
-- strict SQL mode.
SAVEPOINT lockwright_probe;
SET @lockwright = NULL /*!80000 , @lockwright_limit = @@SESSION.innodb_lock_wait_timeout,
    SESSION innodb_lock_wait_timeout = GREATEST(:seconds, 1) */;
/*M!100100 SET STATEMENT innodb_lock_wait_timeout = :seconds FOR */
INSERT INTO {turn} (name, turns, used) VALUES (:name, 1, UTC_TIMESTAMP())
ON DUPLICATE KEY UPDATE turns = turns + 1, used = UTC_TIMESTAMP();
SET @lockwright = NULL /*!80000 , SESSION innodb_lock_wait_timeout = @lockwright_limit */;
RELEASE SAVEPOINT lockwright_probe;
