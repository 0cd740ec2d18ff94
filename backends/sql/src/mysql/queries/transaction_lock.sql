-- Makes the row or changes it, which locks it until the transaction ends. Not INSERT IGNORE: that
-- takes a shared lock first, and two who have it wait for each other. Not a SELECT before: that
-- locks the gap where the row isn't, and no snapshot must be taken before the wait.
--
-- The savepoint tells after a wait in vain whether the transaction is still the same.
--
-- The limit is for this statement alone: MariaDB has SET STATEMENT for that, and it holds also when
-- nobody reads the answer. MySQL, which skips what is for MariaDB and reads what isn't, sets the
-- session's; see transaction_restore.sql.
SAVEPOINT lockwright_probe;
SET @lockwright = NULL /*!80000 , @lockwright_limit = @@SESSION.innodb_lock_wait_timeout,
    SESSION innodb_lock_wait_timeout = :seconds */;
/*M!100100 SET STATEMENT innodb_lock_wait_timeout = :seconds FOR */
INSERT INTO {turn} (name, turns, used) VALUES (:name, 1, UTC_TIMESTAMP())
ON DUPLICATE KEY UPDATE turns = turns + 1, used = UTC_TIMESTAMP();
SET @lockwright = NULL /*!80000 , SESSION innodb_lock_wait_timeout = @lockwright_limit */;
RELEASE SAVEPOINT lockwright_probe;
