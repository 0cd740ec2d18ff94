-- Locks the row by a write. INSERT IGNORE would take a shared lock first, which allows a deadlock.
-- A SELECT would lock a gap, and take a snapshot before the wait.
--
-- The savepoint shows after a wait whether the transaction is still the same. On MariaDB, SET
-- STATEMENT limits the wait of the INSERT. MySQL reads that part as a comment, and needs the
-- session's limit.
SAVEPOINT lockwright_probe;
SET @lockwright = NULL /*!80000 , @lockwright_limit = @@SESSION.innodb_lock_wait_timeout,
    SESSION innodb_lock_wait_timeout = :seconds */;
/*M!100100 SET STATEMENT innodb_lock_wait_timeout = :seconds FOR */
INSERT INTO {turn} (name, turns, used) VALUES (:name, 1, UTC_TIMESTAMP())
ON DUPLICATE KEY UPDATE turns = turns + 1, used = UTC_TIMESTAMP();
SET @lockwright = NULL /*!80000 , SESSION innodb_lock_wait_timeout = @lockwright_limit */;
RELEASE SAVEPOINT lockwright_probe;
