-- Fails if the savepoint has ended with its transaction. Without autocommit, the session may
-- already have a new transaction. Returns whether the server looks for deadlocks, and the session's
-- own limit on waits in seconds.
RELEASE SAVEPOINT lockwright_probe;
SELECT @@innodb_deadlock_detect, @@SESSION.innodb_lock_wait_timeout;
