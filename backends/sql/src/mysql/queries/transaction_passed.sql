-- Fails if the savepoint has ended with its transaction, even if, without autocommit, a new one has
-- begun. Returns whether the server looks for deadlocks, and the session's own limit on waits in
-- seconds.
RELEASE SAVEPOINT lockwright_probe;
SELECT @@innodb_deadlock_detect, @@SESSION.innodb_lock_wait_timeout;
